import { linkedProgram, serviceCommand, type ServicePlace, UNWANTED_VARIABLES } from './service-place.ts';

export const UNIT_NAME = 'muster-agent.service';

/**
 * The unit for systemd. Pure.
 *
 * The agent runs whatever its technicians send, with all rights: settings that take rights away, or that hide folders,
 * would break scripts in ways that nobody looks for here. What is left does not show in a script: no core dumps, which
 * would hold tokens; a keyring of its own; and a script that uses up the memory ends alone.
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

/** Throws for what no unit file can hold. */
function quoted(text: string): string {
  if (/\p{Cc}/u.test(text)) throw new Error('A path with control characters cannot be in a unit file.');
  return /^[\w./:@%+,=-]+$/.test(text) ? text : `"${text}"`;
}
