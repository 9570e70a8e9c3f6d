# make run     the main job in simulation: sets everything up, clears the tray, prints a summary (ARGS="--cubes 8 --view")
# make test    every test but the training ones
# make bench   the benchmarks, to out/bench/
# make dst HOURS=10   simulated robot hours against every fault, in virtual time (SEED=1 is the first)
# make perception-model   trains the perception model anew (two hours on a quiet core)
SHELL := /bin/bash
PYTHON ?= python3.11
VENV ?= .venv
TRITON_VENV ?= .venv-triton
TRAIN_VENV ?= .venv-train
ARGS ?=
SLOT ?= $(or $(STEADYHAND_SLOT),0)

PY := $(VENV)/bin/python
PIP_QUIET := --quiet --disable-pip-version-check --no-input
INTERFACES := ros2_ws/src/steadyhand_interfaces
INTERFACE_FILES := $(wildcard $(INTERFACES)/msg/* $(INTERFACES)/srv/* $(INTERFACES)/action/*) $(INTERFACES)/CMakeLists.txt
PYTHONPATH_SOURCES := $(CURDIR):$(CURDIR)/policies:$(CURDIR)/firmware_bridge:$(CURDIR)/sim:$(CURDIR)/calibration:$(CURDIR)/perception:$(CURDIR)/motion:$(CURDIR)/cli:$(CURDIR)/ros2_ws/src/steadyhand_ros

export STEADYHAND_SLOT := $(SLOT)
export STEADYHAND_TRITON_VENV ?= $(abspath $(TRITON_VENV))

.PHONY: run test test-fast test-train perception-model perception-ablation bench dst setup setup-train setup-peers doctor clean distclean

run: setup
	@$(VENV)/bin/steadyhand run $(ARGS)

# Real processes have the machine to themselves; every other test shares it. 5: nothing selected, which one half may say; 2: interrupted.
PARALLEL := -n 2 --dist worksteal
test: setup
	@$(PY) -m pytest tests --ignore=tests/process $(PARALLEL) $(ARGS); pure=$$?; \
	 [ $$pure -ne 2 ] || exit 2; \
	 $(PY) -m pytest tests/process $(ARGS); processes=$$?; \
	 case "$$pure $$processes" in "0 0" | "0 5" | "5 0") ;; *) exit 1 ;; esac

test-fast: setup
	@$(PY) -m pytest tests/unit tests/property $(PARALLEL) $(ARGS)

# What needs neither PyBullet, ROS nor an inference engine, on another Python (PYTHON_CORE=python3.12).
PYTHON_CORE ?= python3.12
CORE_VENV := .venv-core
test-core:
	@[ -x $(CORE_VENV)/bin/python ] || $(PYTHON_CORE) -m venv $(CORE_VENV)
	@$(CORE_VENV)/bin/python -m pip install $(PIP_QUIET) -r requirements/core.txt -r requirements/test.txt
	@STEADYHAND_TEST_CORE=1 $(CORE_VENV)/bin/python -m pytest tests/unit tests/property $(PARALLEL) -q -p no:cacheprovider $(ARGS)

# By file: this environment lacks what the other tests import.
TRAIN_TESTS := $(shell grep -rl --include='*.py' 'mark.train' tests)
test-train: setup-train
	@PYTHONPATH=$(PYTHONPATH_SOURCES) $(TRAIN_VENV)/bin/python -m pytest $(TRAIN_TESTS) $(ARGS)

# The perception model from its seed: images, training, export, test images, evaluation (docs/perception.md).
perception-model: setup setup-train
	@for step in dataset train "export --variants" samples; do \
	   PYTHONPATH=$(PYTHONPATH_SOURCES) OMP_NUM_THREADS=1 $(TRAIN_VENV)/bin/python -m policies.training.perception.$$step || exit 1; done
	@$(PY) -m benchmarks perception && $(PY) -m benchmarks inspection

# What light set-ups, median, network and distillation are worth (two hours on a quiet core).
perception-ablation: setup setup-train
	@PYTHONPATH=$(PYTHONPATH_SOURCES) OMP_NUM_THREADS=1 $(TRAIN_VENV)/bin/python -m policies.training.perception.dataset
	@PYTHONPATH=$(PYTHONPATH_SOURCES) OMP_NUM_THREADS=1 $(TRAIN_VENV)/bin/python -m policies.training.perception.ablation
	@$(PY) -m benchmarks perception_ablation

bench: setup
	@$(PY) -m benchmarks $(ARGS)

HOURS ?= 1
SEED ?= 1
dst: setup
	@$(VENV)/bin/steadyhand dst --hours $(HOURS) --seed $(SEED)

doctor:
	@if [ -x $(VENV)/bin/steadyhand ]; then $(VENV)/bin/steadyhand doctor; else $(PYTHON) cli/steadyhand_cli/doctor.py; fi

# Stamps: a second run compares file times and starts.
setup: $(VENV)/.packages $(VENV)/.interfaces $(VENV)/.project $(VENV)/.broker $(TRITON_VENV)/.ready

$(VENV)/bin/python:
	@echo "setting up: environment"
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 10) <= sys.version_info[:2] <= (3, 12) else "Python %d.%d: needs 3.10 to 3.12; give PYTHON=python3.11" % sys.version_info[:2])'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.packages: requirements/ros.txt requirements/runtime.txt requirements/sim.txt requirements/calibration.txt requirements/test.txt setup/relocate_ros_wheels.py | $(VENV)/bin/python
	@echo "setting up: packages (about a minute)"
	@$(PY) -m pip install $(PIP_QUIET) -r requirements/ros.txt -r requirements/runtime.txt -r requirements/sim.txt -r requirements/calibration.txt -r requirements/test.txt 2> >(grep -v "is ignored: it is neither a file nor a directory" >&2)
	@$(PY) setup/relocate_ros_wheels.py
	@touch $@

$(VENV)/.interfaces: $(INTERFACE_FILES) $(VENV)/.packages
	@echo "setting up: ROS interfaces (about half a minute)"
	@mkdir -p build
	@export PATH="$(abspath $(VENV))/bin:$$PATH" AMENT_PREFIX_PATH="$(abspath $(VENV))" CMAKE_PREFIX_PATH="$(abspath $(VENV))"; unset PYTHONPATH; \
	 { cmake -S $(INTERFACES) -B build/interfaces -DCMAKE_INSTALL_PREFIX="$(abspath $(VENV))" -DPython3_EXECUTABLE="$(abspath $(PY))" -DBUILD_TESTING=OFF \
	   && cmake --build build/interfaces -j2 && cmake --install build/interfaces; } > build/interfaces.log 2>&1 || { tail -n 30 build/interfaces.log; exit 1; }
	@touch $@

$(VENV)/.project: setup.py package.xml ros2_ws/src/steadyhand_ros/setup.py $(VENV)/.packages
	@$(PY) -m pip install $(PIP_QUIET) --no-deps --no-build-isolation -e . -e ros2_ws/src/steadyhand_ros
	@touch $@

# mosquitto for the tests of the AGV, unless it is installed; without it those tests are skipped, by name.
$(VENV)/.broker: setup/broker.sh | $(VENV)/bin/python
	@setup/broker.sh $(VENV)/broker
	@touch $@

$(TRITON_VENV)/.ready: requirements/triton.txt
	@echo "setting up: Triton server (about half a minute)"
	@$(PYTHON) -m venv $(TRITON_VENV)
	@$(TRITON_VENV)/bin/python -m pip install $(PIP_QUIET) -r requirements/triton.txt
	@$(TRITON_VENV)/bin/python -m pip install $(PIP_QUIET) --no-deps nvidia-pytriton==0.7.0
	@touch $@

setup-train: $(TRAIN_VENV)/.ready
$(TRAIN_VENV)/.ready: requirements/runtime.txt requirements/sim.txt requirements/test.txt requirements/train.txt
	@echo "setting up: training environment"
	@$(PYTHON) -m venv $(TRAIN_VENV)
	@$(TRAIN_VENV)/bin/python -m pip install $(PIP_QUIET) -r requirements/runtime.txt -r requirements/sim.txt -r requirements/test.txt -r requirements/train.txt
	@touch $@

# The peers of the benchmark `policy_peers`, each in an environment of its own (docs/peers.md). Never part of setup.
setup-peers: .venv-peers-openpi/.ready .venv-peers-lerobot/.ready
.venv-peers-openpi/.ready: PYTHON_PEER = $(PYTHON)
.venv-peers-lerobot/.ready: PYTHON_PEER = $(PYTHON_CORE)
.venv-peers-%/.ready: requirements/peers-%.txt
	@echo "setting up: peer $* (LeRobot: several GB)"
	@$(PYTHON_PEER) -m venv $(@D)
	@$(@D)/bin/python -m pip install $(PIP_QUIET) -r $<
	@touch $@

clean:
	rm -rf build out .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) $(TRITON_VENV) $(TRAIN_VENV) $(CORE_VENV) .venv-peers-openpi .venv-peers-lerobot
