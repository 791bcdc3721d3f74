/**
 * Stands for systemctl where no systemd runs: it starts and stops what the unit file of the installation names, and
 * notes what it was asked. FAKE_SYSTEMD is the folder that stands for the machine.
 */
export const FAKE_SYSTEMCTL = `#!/bin/sh
set -eu
unit="$FAKE_SYSTEMD/etc/systemd/system/muster-agent.service"
pid="$FAKE_SYSTEMD/service.pid"
echo "$*" >>"$FAKE_SYSTEMD/calls"
stop() {
  [ -e "$pid" ] || return 0
  kill "$(cat "$pid")" 2>/dev/null || :
  while kill -0 "$(cat "$pid")" 2>/dev/null; do sleep 0.1; done
  rm -f "$pid"
}
start() {
  command=$(sed -n 's/^ExecStart=//p' "$unit")
  setsid sh -c "exec $command" </dev/null >>"$FAKE_SYSTEMD/service.log" 2>&1 &
  echo $! >"$pid"
}
case "$1" in
  start) start ;;
  restart) stop && start ;;
  stop) stop ;;
  disable) stop ;;
  is-active) [ -e "$pid" ] && kill -0 "$(cat "$pid")" ;;
  enable | daemon-reload) ;;
  *) exit 1 ;;
esac
`;
