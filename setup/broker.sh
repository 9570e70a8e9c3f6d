#!/usr/bin/env bash
# Gives the tests a real MQTT broker: setup/broker.sh FOLDER. A mosquitto that is installed is used; else Debian's
# packages are fetched by apt-get and unpacked into FOLDER, without installing anything or being root.
set -u
folder="$1"
mkdir -p "$folder"
if PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v mosquitto > /dev/null; then exit 0; fi
hint="the tests with a broker will be skipped; install mosquitto (Debian: apt-get install mosquitto) to run them"
if ! command -v apt-get > /dev/null || ! command -v dpkg-deb > /dev/null; then
  echo "no mosquitto and no apt-get here: $hint"
  exit 0
fi
packages="$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances mosquitto 2> /dev/null \
  | grep -E '^(mosquitto|libmosquitto|libwebsockets|libcjson|libdlt|libwrap|libev|libuv)' | sort -u)"
cd "$folder" || exit 1
if [ -z "$packages" ] || ! apt-get download $packages > fetch.log 2>&1; then
  echo "apt-get cannot fetch mosquitto (after apt-get update, perhaps): $hint"
  exit 0
fi
for package in *.deb; do dpkg-deb -x "$package" . && rm "$package"; done
