import { type Command, InvalidArgumentError } from 'commander';
import { readOfferState, requestApply } from '../capabilities/update/offer.ts';
import { readUpgradeState, upgradeSentences } from '../capabilities/update/upgrade-state.ts';
import { loadCredentials, NOT_ENROLLED, Settings } from '../core/settings.ts';
import { runningAgent } from '../core/status-file.ts';
import { printable } from '../core/plain-text.ts';
import { AGENT_VERSION } from '../core/version.ts';
import { currentRelease, defaultDataDir, defaultProgramsDir } from '../os/releases/layout.ts';

/** As long as the last output lines of a failed release. */
const LINE_MAX = 3000;

interface Options {
  dataDir: string;
}

/** Shows and changes how the running agent upgrades. */
export function addUpdate(program: Command): void {
  const update = program.command('update').description('see and decide which release this machine runs');
  const add = (name: string, description: string) =>
    update
      .command(name)
      .description(description)
      .option('--data-dir <folder>', 'folder of the agent', defaultDataDir());

  add(
    'check',
    'show the release that the server offers (exit 0: none or installed soon, 1: not installed by itself)',
  ).action(async ({ dataDir }: Options) => {
    await assertEnrolled(dataDir);
    const settings = await Settings.load(dataDir, (message) => console.error(message));
    const running = await runningAgent(dataDir);
    const version = running?.agentVersion ?? (await currentRelease(defaultProgramsDir(), 'agent'));
    console.log(`The agent is ${version ?? AGENT_VERSION}.`);
    if (settings.autoUpdate) console.log('Automatic upgrades are on.');
    const lines = upgradeSentences(await readUpgradeState(dataDir, settings.autoUpdate));
    for (const line of lines) console.log(printable(line, LINE_MAX));
    const offer = await readOfferState(dataDir);
    if (offer !== undefined && (!settings.autoUpdate || offer.failure !== undefined)) process.exitCode = 1;
  });
  add('apply', 'install the release that the server offers, with the next heartbeat').action(
    async ({ dataDir }: Options) => {
      await assertEnrolled(dataDir);
      if ((await runningAgent(dataDir)) === undefined) {
        throw new Error('No agent is running here that could install it.');
      }
      await requestApply(dataDir);
      console.log(
        'The agent installs what the server offers with its next heartbeat, within about a minute.',
      );
    },
  );
  add('auto', 'let the agent install offered releases by itself, or not')
    .argument('<on|off>', 'whether to', parseSwitch)
    .action(async (enabled: boolean, { dataDir }: Options) => {
      await assertEnrolled(dataDir);
      const settings = await Settings.load(dataDir, (message) => console.error(message));
      await settings.setAutoUpdate(enabled);
      console.log(`Automatic upgrades are ${enabled ? 'on' : 'off'}.`);
    });
}

function parseSwitch(text: string): boolean {
  if (text === 'on' || text === 'off') return text === 'on';
  throw new InvalidArgumentError('Say "on" or "off".');
}

async function assertEnrolled(dataDir: string): Promise<void> {
  if ((await loadCredentials(dataDir)) === undefined) {
    throw Object.assign(new Error(NOT_ENROLLED), { exitCode: 2 });
  }
}
