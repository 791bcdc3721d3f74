import type { Command } from 'commander';
import type { CommandLine } from './io.ts';

type Add = (program: Command, commandLine: CommandLine) => void;

/**
 * The commands with what `muster --help` says about each. The module that defines a command is loaded where that command
 * is called: all of them together take several times as long to load as any of them takes to run.
 */
interface CommandGroup {
  commands: Readonly<Record<string, string>>;
  load: () => Promise<Add>;
}

export const COMMAND_GROUPS: readonly CommandGroup[] = [
  {
    commands: {
      init: 'write an environment file with generated secrets; with names, also create the first administrator, provider, organization, site and enrollment key',
      doctor:
        'check this installation and say how to correct what is wrong; nothing is changed (exit 0: sound, 1: something failed)',
      upgrade: 'prepare an upgrade of this server',
      admin: 'create and help administrators of this installation (audited, without signing in)',
      'api-keys': 'create, list and revoke keys for programs (audited, without signing in)',
      sso: 'show and switch off enforced single sign-on, when an identity provider locks people out',
    },
    load: async () => (await import('./operator-commands.ts')).addOperatorCommands,
  },
  {
    commands: {
      backup:
        'write this installation (database, keys, releases) to one file while its servers go on, or verify such a file (exit 0: done or intact, 1: not intact, 2: failed)',
      restore:
        'restore a backup of Muster into an empty database and data folder, and check the result (exit 0: restored, 1: restored with findings, 2: not restored)',
    },
    load: async () => (await import('./installation-backup/backup-commands.ts')).addInstallationBackup,
  },
  {
    commands: { audit: 'verify, export and prune the audit trail' },
    load: async () => (await import('./audit/audit-commands.ts')).addAudit,
  },
  {
    commands: { releases: 'publish and promote releases of the agent (audited, without signing in)' },
    load: async () => (await import('./release-commands.ts')).addReleases,
  },
  {
    commands: {
      login: 'sign in to a server with an API key, which is stored for you only',
      logout: 'delete a stored API key',
      profiles: 'list the servers that you are signed in to',
    },
    load: async () => (await import('./remote/commands/sign-in-commands.ts')).addSignIn,
  },
  {
    commands: {
      devices: 'list devices, and act on them',
      search: 'find devices, people, places, filters and more by a part of what they are called',
    },
    load: async () => (await import('./remote/commands/device-commands.ts')).addDevices,
  },
  {
    commands: {
      query: 'read the event logs of devices live; Ctrl+C ends it on the devices',
      processes: 'read and end processes of a device, live',
      services: 'read and control services of a device, live',
    },
    load: async () => (await import('./remote/commands/live-commands.ts')).addLive,
  },
  {
    commands: {
      jobs: 'follow long work',
      scripts: 'list scripts, and run them on devices',
    },
    load: async () => (await import('./remote/commands/work-commands.ts')).addWork,
  },
  {
    commands: { terminal: 'open a terminal of a device' },
    load: async () => (await import('./remote/commands/terminal-commands.ts')).addTerminal,
  },
  {
    commands: { completion: 'print the script that completes commands and options in a shell' },
    load: async () => (await import('./completion-commands.ts')).addCompletion,
  },
];

/** Adds all commands in the order of the list: those that are wanted as they are, and of the others the name. */
export async function addCommands(
  program: Command,
  commandLine: CommandLine,
  isWanted: (name: string) => boolean,
): Promise<void> {
  for (const { commands, load } of COMMAND_GROUPS) {
    const names = Object.keys(commands);
    if (names.some(isWanted)) (await load())(program, commandLine);
    else for (const name of names) program.command(name);
  }
  const descriptions = new Map(COMMAND_GROUPS.flatMap(({ commands }) => Object.entries(commands)));
  for (const command of program.commands) command.description(descriptions.get(command.name()) ?? '');
}
