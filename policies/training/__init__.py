"""Training: from demonstrations to a policy file whose figures can be taken again. Needs torch; the runtime does not.

Law of this folder: nothing at run time imports it (only benchmarks and tests do). Everything follows from one YAML file
and its seed; held-out scenes are read by evaluations only. Where things are:

    configs/, config, schema    one file per run; what may stand in it; how strictly it is read
    run, campaign               one run, resumable; all runs in the background, resumable
    store/                      demonstrations and samples on disk, durable
    rollout/                    episodes: the actor, fragments, environments in processes or on a Ray cluster (no torch)
    demonstrate, bc             demonstrations; cloning of them on the actor's mean
    ppo/                        fine-tuning: update, exploration, alarms, clean set and roll-back, resume
    plants                      randomised and pseudo-real plants
    evaluate, statistics        held-out scenes, tampering, paired tests and intervals (no torch)
    network, export, curves     torch module, ONNX with contract, learning curves
    checkpoints/                actors, curves and results of the committed runs
    pick_place/                 the shipped Cartesian chunk policy (cloning with DAgger)
    perception/                 the shipped perception model
"""
