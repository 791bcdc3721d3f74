import path from 'node:path';
import { componentFolder } from './releases/layout.ts';

export const UNIT_NAME = 'muster-agent.service';

/**
 * The unit for systemd. Pure.
 * The agent runs any script of its technicians with all rights: settings that remove rights or hide folders would
 * break scripts in ways that are hard to find. The remaining settings do not affect scripts: no core dumps, which
 * would contain tokens; a separate keyring; and if a script uses up the memory, only the script is ended.
 */
export function systemdUnit(place: ServicePlace): string {
  const program = linkedProgram(place);
  const [first, ...words] = serviceCommand(place, program);
  const command = [programWord(first), ...words.map(unitWord)].join(' ');
  return `# Written by muster-agent service install. An upgrade of the agent does not change this file.
[Unit]
Description=Muster agent
Wants=network-online.target
After=network-online.target
# Without this, systemd gives up for ever after five restarts in ten seconds.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart=${command}
Restart=always
RestartSec=5
WatchdogSec=60
# The watchdog is asked to stop and stops the agent; what is left after that is killed.
KillMode=mixed
TimeoutStopSec=60
UnsetEnvironment=${UNWANTED_VARIABLES.join(' ')}
# For HTTPS_PROXY, NO_PROXY and NODE_EXTRA_CA_CERTS.
EnvironmentFile=-/etc/default/muster-agent
OOMPolicy=continue
KeyringMode=private
LimitCORE=0

[Install]
WantedBy=multi-user.target
`;
}

/** The program of ExecStart, in which systemd replaces specifiers and no variables. */
function programWord(program: string): string {
  if (/["'\\]/.test(program)) {
    throw new Error('systemd starts no program with quotation marks or backslashes in its path.');
  }
  return quoted(program.replaceAll('%', '%%'));
}

/** An argument of ExecStart: quoted, without specifiers and variables. */
export function unitWord(text: string): string {
  const escaped = text.replaceAll('\\', String.raw`\\`).replaceAll('"', String.raw`\"`);
  return quoted(escaped.replaceAll('%', '%%').replaceAll('$', () => '$$'));
}

/** Throws for characters that a unit file cannot contain. */
function quoted(text: string): string {
  if (/\p{Cc}/u.test(text)) throw new Error('A path with control characters cannot be in a unit file.');
  return /^[\w./:@%+,=-]+$/.test(text) ? text : `"${text}"`;
}

export const OPENRC_SERVICE = 'muster-agent';

/**
 * The init script for OpenRC, whose supervise-daemon restarts the program and discards its output; the watchdog writes
 * a log of its own. Nothing checks whether the program responds. Pure.
 */
export function openrcScript(place: ServicePlace): string {
  return `#!/sbin/openrc-run
# Written by muster-agent service install. An upgrade of the agent does not change this file.
# For HTTPS_PROXY, NO_PROXY and NODE_EXTRA_CA_CERTS: "export NAME=value" in /etc/conf.d/${OPENRC_SERVICE}.

description="Muster agent"

muster_program=${shellWord(linkedProgram(place))}
muster_programs=${shellWord(place.programs)}
muster_data_dir=${shellWord(place.dataDir)}

supervisor=supervise-daemon
# OpenRC expands these twice. A variable within them keeps a path with spaces together.
command='"$muster_program"'
command_args='watchdog run --programs "$muster_programs" --data-dir "$muster_data_dir"'
pidfile=/run/${OPENRC_SERVICE}.pid
respawn_delay=5
# Without this, OpenRC gives up for ever after ten restarts.
respawn_max=0
# The watchdog is asked to stop and stops the agent.
retry=TERM/60/KILL/5
# No core dumps, which would contain tokens.
rc_ulimit="-c 0"
unset ${UNWANTED_VARIABLES.join(' ')}

depend() {
  # The agent waits for the network by itself, so that a machine without one starts as well.
  use net dns
  after localmount bootmisc
}

stop_pre() {
  muster_watchdog=$(service_get_value child_pid)
}

# A supervise-daemon that was killed has left the watchdog running, which then has to be stopped here.
stop_post() {
  case "$(readlink "/proc/$muster_watchdog/exe")" in
    "$muster_programs"/watchdog/*) kill "$muster_watchdog" ;;
    *) return 0 ;;
  esac
  local seconds=0
  while [ -e "/proc/$muster_watchdog" ] && [ "$seconds" -lt 60 ]; do
    sleep 1
    seconds=$((seconds + 1))
  done
}
`;
}

export const JOB_LABEL = 'com.muster.agent';

/** The job for launchd, which restarts the program and does not check whether it responds. Pure. */
export function launchdJob(place: ServicePlace): string {
  const words = serviceCommand(place, linkedProgram(place)).map(
    (word) => `    <string>${xmlText(word)}</string>\n`,
  );
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>${JOB_LABEL}</string>
  <key>ProgramArguments</key>
  <array>
${words.join('')}  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <true/>
  <key>ThrottleInterval</key>
  <integer>10</integer>
  <key>ExitTimeOut</key>
  <integer>60</integer>
  <key>ProcessType</key>
  <string>Standard</string>
</dict>
</plist>
`;
}

export const TASK_NAME = String.raw`\Muster\Agent`;

/**
 * The task for Windows. A Windows service has to answer the service manager within 30 seconds, which Node cannot do
 * without a native program around it; a task that starts with the machine needs none. Pure.
 * @param program  the executable under the path that upgrades replace, because Windows has no link to the current one
 */
export function scheduledTask(place: ServicePlace, program: string): string {
  const [command, ...words] = serviceCommand(place, program);
  return `<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.3" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Description>Muster agent</Description>
  </RegistrationInfo>
  <Triggers>
    <BootTrigger>
      <Enabled>true</Enabled>
    </BootTrigger>
    <TimeTrigger>
      <Repetition>
        <Interval>PT5M</Interval>
      </Repetition>
      <StartBoundary>2000-01-01T00:00:00</StartBoundary>
      <Enabled>true</Enabled>
    </TimeTrigger>
  </Triggers>
  <Principals>
    <Principal id="System">
      <UserId>S-1-5-18</UserId>
      <RunLevel>HighestAvailable</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <StartWhenAvailable>true</StartWhenAvailable>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <Priority>6</Priority>
    <RestartOnFailure>
      <Interval>PT1M</Interval>
      <Count>999</Count>
    </RestartOnFailure>
  </Settings>
  <Actions Context="System">
    <Exec>
      <Command>${xmlText(`"${command}"`)}</Command>
      <Arguments>${xmlText(words.map(windowsWord).join(' '))}</Arguments>
    </Exec>
  </Actions>
</Task>
`;
}

/** A word of a Windows command line, by the rules of CommandLineToArgvW. */
export function windowsWord(text: string): string {
  if (text !== '' && !/[\s"]/.test(text)) return text;
  const escaped = text.replace(/(\\*)"/g, String.raw`$1$1\"`).replace(/(\\+)$/, '$1$1');
  return `"${escaped}"`;
}

/** Where the service of this machine finds its program and keeps its files. */
export interface ServicePlace {
  programs: string;
  dataDir: string;
  /** Replaces `/` for all files outside of the two folders above; empty on a real machine. */
  prefix: string;
}

/** The program that the service manager starts, and its arguments. */
export function serviceCommand({ programs, dataDir }: ServicePlace, program: string): [string, ...string[]] {
  return [program, 'watchdog', 'run', '--programs', programs, '--data-dir', dataDir];
}

/** The program by the link that an upgrade of the watchdog moves. Windows has no such link. */
export const linkedProgram = ({ programs }: ServicePlace): string =>
  path.posix.join(componentFolder(programs, 'watchdog'), 'current', 'muster-agent');

/**
 * Variables of Node that would make the program load foreign code, or trust any server. The executable ignores
 * NODE_OPTIONS by itself; a program that it starts might not.
 */
export const UNWANTED_VARIABLES = [
  'NODE_OPTIONS',
  'NODE_PATH',
  'NODE_REPL_EXTERNAL_MODULE',
  'NODE_TLS_REJECT_UNAUTHORIZED',
] as const;

/** Text as one literal word of a shell. Throws for characters that would hide in a script. */
export function shellWord(text: string): string {
  if (/\p{Cc}/u.test(text)) throw new Error('A path with control characters cannot be in a script.');
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Text as the content of an XML element. Throws for characters that XML cannot hold. */
export function xmlText(text: string): string {
  if (/[\p{Cc}]/u.test(text)) throw new Error('A path with control characters cannot be in this file.');
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
