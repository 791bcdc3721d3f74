import path from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { buildAgent, isOwnPlatform } from './build-agent.ts';
import { isPlatform, type Platform, PLATFORMS } from './runtimes.ts';

/** `npm run build:agent`: the files of a release of the agent. */
const ALL = Object.keys(PLATFORMS).filter(isPlatform);

const program = new Command('build:agent')
  .description('Builds the executables and the script of the agent.')
  .option(
    '--platform <names>',
    `all, or some of ${ALL.join(', ')}, separated by commas`,
    parsePlatforms,
    own(),
  )
  .option('--out <folder>', 'folder for the files', path.join('dist', 'agent'))
  .option(
    '--version <version>',
    'in place of the versions in the source, such as 1.4.0 or 1.4.0-rc.2',
    parseVersion,
  )
  .action(async ({ platform, out, version }: { platform: Platform[]; out: string; version?: string }) => {
    if (platform.length === 0) throw new Error(`This machine is none of ${ALL.join(', ')}: give --platform.`);
    const { failed } = await buildAgent({
      platforms: platform,
      out,
      ...(version === undefined ? {} : { versions: { agent: version, watchdog: version } }),
      report: (line) => console.log(line),
    });
    if (failed.length > 0) process.exitCode = 1;
  });

try {
  await program.parseAsync();
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}

function parsePlatforms(text: string): Platform[] {
  if (text === 'all') return ALL;
  return text.split(',').map((name) => {
    if (!isPlatform(name)) throw new InvalidArgumentError(`${name} is none of ${ALL.join(', ')}.`);
    return name;
  });
}

function parseVersion(text: string): string {
  if (/^\d+\.\d+\.\d+(-rc\.\d+)?$/.test(text) && text.length <= 20) return text;
  throw new InvalidArgumentError('Give a version such as 1.4.0 or 1.4.0-rc.2.');
}

/** The platform of this machine, if it is supported. */
function own(): Platform[] {
  return ALL.filter((name) => isOwnPlatform(name));
}
