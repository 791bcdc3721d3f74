import { downloadUrl, type Installer, shellWord } from './installer.ts';

/**
 * `install.sh`, for Linux and macOS. Pure. All of it is one group of commands, which a shell runs only when it has read
 * the closing brace: a download that was cut off does nothing.
 */
export function shellInstaller({ server, key, programs }: Installer): string {
  const cases = programs
    .filter(({ os }) => os !== 'windows')
    .map(
      (program) => `    ${program.os}-${program.architecture})
      url=${shellWord(downloadUrl(server, program))}
      version=${shellWord(program.version)}
      sha256=${shellWord(program.sha256)}
      ;;
`,
    );
  return `#!/bin/sh
# Installs the Muster agent on Linux and macOS. Read it before you run it:
#   curl -fsSL ${server}/install.sh | less
# Install:    curl -fsSL ${server}/install.sh | sudo sh -s -- --key KEY
# Uninstall:  curl -fsSL ${server}/install.sh | sudo sh -s -- --uninstall
{
set -eu
umask 022

server=${shellWord(server)}
given_key=${shellWord(key)}

choose_program() {
  case "$1" in
${cases.join('')}    *)
      fail "This server has no agent for $1. Its operator publishes one with: muster releases add, muster releases promote."
      ;;
  esac
}
${BODY}
main "$@"
exit 0
}
`;
}

/** The part that is the same on every server. */
const BODY = `
usage() {
  cat <<'END'
Options, and the environment variables for them:
  --key KEY        MUSTER_ENROLLMENT_KEY  enrollment key; the variable keeps it out of the list of processes
  --uninstall                             remove the agent from this machine and from the server
  --keep-data                             with --uninstall: keep everything but the credentials
  --quiet          MUSTER_QUIET=1         print failures only
  --no-service     MUSTER_NO_SERVICE=1    enroll, and leave starting the agent to you, as in a container
  --insecure-http                         for laboratories: allow an unencrypted connection
  --programs DIR   MUSTER_PROGRAMS        folder of the programs
  --data-dir DIR   MUSTER_AGENT_DIR       folder of the agent's files
  --prefix DIR     MUSTER_PREFIX          for images and tests: a folder in place of /
                   MUSTER_PROXY           HTTP proxy of the agent, or none
                   MUSTER_CA_FILE         PEM file of certificate authorities to trust as well
END
}

say() {
  [ -n "$quiet" ] || printf '%s\\n' "$*"
}

fail() {
  printf '%s\\n' "$*" >&2
  exit 1
}

has() {
  command -v "$1" >/dev/null 2>&1
}

needs_value() {
  [ "$#" -ge 2 ] || fail "$1 needs a value."
}

read_options() {
  key=\${MUSTER_ENROLLMENT_KEY:-$given_key}
  quiet=\${MUSTER_QUIET:-}
  no_service=\${MUSTER_NO_SERVICE:-}
  prefix=\${MUSTER_PREFIX:-}
  programs=\${MUSTER_PROGRAMS:-}
  data=\${MUSTER_AGENT_DIR:-}
  action=install
  keep_data=
  insecure=
  while [ "$#" -gt 0 ]; do
    case "$1" in
      --key) needs_value "$@" && key=$2 && shift ;;
      --programs) needs_value "$@" && programs=$2 && shift ;;
      --data-dir) needs_value "$@" && data=$2 && shift ;;
      --prefix) needs_value "$@" && prefix=$2 && shift ;;
      --uninstall) action=uninstall ;;
      --keep-data) keep_data=--keep-data ;;
      --quiet) quiet=1 ;;
      --no-service) no_service=1 ;;
      --insecure-http) insecure=--insecure-http ;;
      --help)
        usage
        exit 0
        ;;
      *) fail "Unknown option $1. See --help." ;;
    esac
    shift
  done
}

# The folder that an earlier run was told to use, by what it wrote into the command muster-agent.
installed_as() {
  written=$prefix/usr/local/bin/muster-agent
  [ ! -r "$written" ] || sed -n "s|^$1 *'\\(.*\\)$2'.*|\\1|p" "$written"
}

find_place() {
  case "$(uname -s)" in
    Linux) os=linux home=/opt/muster magic=7f454c46 ;;
    Darwin) os=macos home=/Library/Muster magic=cffaedfe ;;
    *) fail "There is no agent for $(uname -s)." ;;
  esac
  case "$(uname -m)" in
    x86_64 | amd64) architecture=x64 ;;
    aarch64 | arm64) architecture=arm64 ;;
    *) fail "There is no agent for the processor $(uname -m)." ;;
  esac
  programs=\${programs:-$(installed_as "exec" '/watchdog/current/muster-agent')}
  programs=\${programs:-$prefix$home}
  data=\${data:-$(installed_as "  MUSTER_AGENT_DIR=" '')}
  data=\${data:-$prefix/var/lib/muster-agent}
  agent=$programs/watchdog/current/muster-agent
  foreground="$agent watchdog run --programs $programs --data-dir $data"
  case "$programs$data" in
    *[[:cntrl:]]* | *[\\'\\"\\\\]*) fail "The folders must not have quotation marks, backslashes or control characters in their names, which a service definition cannot hold." ;;
  esac
  case "$programs,$data" in
    /*,/*) ;;
    *) fail "The folders must be absolute paths." ;;
  esac
}

assert_root() {
  [ -n "$prefix" ] || [ "$(id -u)" = 0 ] || fail "This needs the rights of root: pipe it into sudo sh."
}

# Everything that can be known before the key is used: a device that never connects is of no use.
assert_can_stay() {
  [ "$os" = linux ] || return 0
  case "$architecture" in
    x64) loader=/lib64/ld-linux-x86-64.so.2 ;;
    *) loader=/lib/ld-linux-aarch64.so.1 ;;
  esac
  [ -e "$loader" ] || fail "The agent needs glibc, which this system does not have (Alpine and others have musl in its place). Nothing was installed, and the machine was not enrolled."
  glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d ' ' -f 2)
  case "$glibc" in
    2.[0-9] | 2.[0-9].* | 2.1[0-9]* | 2.2[0-7]*)
      fail "The agent needs glibc 2.28 or newer, and this system has $glibc. Nothing was installed, and the machine was not enrolled."
      ;;
  esac
  [ -n "$no_service" ] || assert_service_manager
}

# OpenRC makes its file when it starts the machine, as systemd makes its folder; being installed is not enough.
assert_service_manager() {
  if [ -d "$prefix/run/systemd/system" ]; then
    definitions=$prefix/etc/systemd/system
  elif [ -e "$prefix/run/openrc/softlevel" ]; then
    definitions=$prefix/etc/init.d
  else
    printf '%s\\n' "This machine has no service manager that Muster knows: neither systemd nor OpenRC is running, so nothing would start the agent. The machine was not enrolled, and nothing was installed." "To start the agent by other means, as in a container, run this installer with --no-service and then keep this running: $foreground" >&2
    exit 3
  fi
  is_writable "$definitions" || fail "The service cannot be installed, because $definitions cannot be written to (is it mounted read-only?). The machine was not enrolled, and nothing was installed. With --no-service, the agent is installed without a service, and this starts it: $foreground"
}

# Whether the folder can be written to, or can be made.
is_writable() {
  existing=$1
  while [ ! -e "$existing" ]; do
    existing=$(dirname "$existing")
  done
  [ -w "$existing" ]
}

assert_writable() {
  is_writable "$1" || fail "$1 cannot be made, because $existing cannot be written to (is it mounted read-only?). Choose another folder with $2 DIR. The machine was not enrolled."
}

runs() {
  [ -x "$1" ] && "$1" watchdog version >/dev/null 2>&1
}

# The agent's own settings for its way to the server count for the download as well.
use_network() {
  case "\${MUSTER_PROXY:-}" in
    '') ;;
    none) unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY ;;
    *) export http_proxy="$MUSTER_PROXY" https_proxy="$MUSTER_PROXY" ;;
  esac
  if [ -n "\${MUSTER_CA_FILE:-}" ]; then
    export CURL_CA_BUNDLE="$MUSTER_CA_FILE" SSL_CERT_FILE="$MUSTER_CA_FILE"
  fi
}

download() {
  if has curl; then
    curl -fsSL --proto '=http,https' --retry 3 --connect-timeout 20 -o "$2" "$1"
  elif has wget; then
    wget -q -O "$2" "$1"
  else
    fail "This needs curl or wget."
  fi
}

sha256_of() {
  if has sha256sum; then
    sha256sum <"$1" | cut -c 1-64
  elif has shasum; then
    shasum -a 256 <"$1" | cut -c 1-64
  else
    fail "This needs sha256sum or shasum."
  fi
}

get_program() {
  choose_program "$os-$architecture"
  say "Downloading muster-agent $version for $os $architecture from $server"
  mkdir -p "$programs"
  folder=$(mktemp -d "$programs/installing.XXXXXX")
  trap 'rm -rf "$folder"' EXIT
  trap 'exit 1' HUP INT TERM
  new=$folder/muster-agent
  (use_network && download "$url" "$new") || fail "The program could not be downloaded from $url"
  found=$(od -An -tx1 -N4 <"$new" | tr -d ' \\n')
  [ "$found" = "$magic" ] || fail "What came from $url is not a program. Does the network ask for a sign-in in a browser first?"
  found=$(sha256_of "$new")
  [ "$found" = "$sha256" ] || fail "The program from $url has the SHA-256 $found, and not $sha256. Nothing was installed."
  chmod 755 "$new"
  runs "$new" || fail "The program does not start on this machine. It needs glibc 2.28 or newer, libstdc++, and a folder $programs that is not mounted noexec. The machine was not enrolled."
}

install_agent() {
  assert_root
  assert_can_stay
  assert_writable "$programs" --programs
  assert_writable "$data" --data-dir
  new=$agent
  if runs "$agent"; then
    say "muster-agent is installed in $programs; its watchdog keeps it up to date."
  else
    say "This installs muster-agent into $programs, with its files in $data, and enrolls this machine at $server."
    get_program
  fi
  if "$new" status --data-dir "$data" --json 2>/dev/null | grep -qF "\\"server\\":\\"$server\\""; then
    say "This machine is already enrolled at $server."
  else
    [ -n "$key" ] || fail "Give an enrollment key: --key KEY, or MUSTER_ENROLLMENT_KEY."
    MUSTER_ENROLLMENT_KEY=$key "$new" enroll --server "$server" --data-dir "$data" $insecure >/dev/null
    say "This machine is now enrolled at $server."
  fi
  unset MUSTER_ENROLLMENT_KEY
  if [ -n "$no_service" ]; then
    "$new" service install --no-start --programs "$programs" --data-dir "$data" --prefix "$prefix" >/dev/null
    say "Start the agent with: $foreground"
    return
  fi
  "$new" service install --programs "$programs" --data-dir "$data" --prefix "$prefix" >/dev/null ||
    fail "This machine is enrolled and does not connect, because the service could not be installed. Mend that and run this again, or take it out of service with --uninstall."
  say "The service is installed. Waiting until the server knows this machine as connected."
  seconds=0
  until "$agent" status --data-dir "$data" >/dev/null 2>&1; do
    seconds=$((seconds + 1))
    [ "$seconds" -lt 60 ] || fail "The agent is installed but has not connected: $("$agent" status --data-dir "$data" 2>&1). Find out why with: $agent doctor --data-dir $data"
    sleep 1
  done
  say "This machine is connected to $server."
}

uninstall_agent() {
  assert_root
  if [ ! -e "$programs/watchdog" ] && [ ! -e "$data" ]; then
    say "muster-agent is not installed in $programs."
    return
  fi
  say "This removes muster-agent from $programs, and its files from $data."
  if runs "$agent"; then
    "$agent" service remove --programs "$programs" --data-dir "$data" --prefix "$prefix" >/dev/null ||
      fail "The service could not be removed, so everything stays as it is."
    code=0
    "$agent" unenroll --data-dir "$data" --force $keep_data >/dev/null || code=$?
    [ "$code" != 5 ] || fail "Stop the agent, and run this again. Until then, this machine stays enrolled."
    [ "$code" = 0 ] ||
      say "The server may still list this device until you decommission it there, and files may stay in $data."
  else
    say "The program is not there or does not start any more. The server still lists this device until you decommission it there."
    say "Its files stay in $data."
  fi
  rm -rf "$programs/watchdog" "$programs/agent" "$programs"/installing.*
  rmdir "$programs" 2>/dev/null || :
  say "muster-agent is removed."
}

main() {
  read_options "$@"
  find_place
  if [ "$action" = uninstall ]; then
    uninstall_agent
  else
    install_agent
  fi
}
`;
