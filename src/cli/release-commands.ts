import { type Command, InvalidArgumentError } from 'commander';
import type { z } from 'zod';
import { ReleaseVersion as Version } from '../platform/semver.ts';
import {
  ReleaseArchitecture as Architecture,
  ReleaseComponent as Component,
  ReleaseSystem as OperatingSystem,
} from '../protocol/index.ts';
import type { CommandLine } from './io.ts';
import type { AddOptions } from './run-releases.ts';

/** Commands for releases of the agent, loaded on demand. */
export function addReleases(program: Command, { io, action }: CommandLine): void {
  const releases = program.command('releases').exitOverride();

  releases
    .command('add')
    .description('publish files as releases of components for platforms')
    .argument('<files...>', 'the files, or the folder that "npm run build:agent" writes; they are copied')
    .requiredOption('--version <version>', 'such as 1.4.0 or 1.4.0-rc.2', parsed(Version))
    .option(
      '--component <component>',
      `${Component.options.join(', ')}; where the name does not say it`,
      parsed(Component),
    )
    .option('--os <os>', `${OperatingSystem.options.join(', ')}; likewise`, parsed(OperatingSystem))
    .option(
      '--architecture <architecture>',
      `${Architecture.options.join(', ')}; likewise`,
      parsed(Architecture),
    )
    .option('--sha256 <hash>', 'refuse the file unless it has this SHA-256', (text: string) =>
      text.toLowerCase(),
    )
    .option('--notes <text>', 'what is new')
    .option('--json', 'print one JSON object for each file')
    .exitOverride()
    .action(
      action(async (files: string[], options: AddOptions) => {
        const { add } = await import('./run-releases.ts');
        await add(io, files, options);
      }),
    );

  releases
    .command('list')
    .description('list all releases, newest first')
    .option('--json', 'print JSON')
    .exitOverride()
    .action(
      action(async (options: { json?: true }) => {
        const { printReleases } = await import('./run-releases.ts');
        await printReleases(io, options);
      }),
    );

  releases
    .command('promote')
    .description('make a version what devices upgrade to, on every platform that it has a release for')
    .argument('<version>', 'a version that is registered', parsed(Version))
    .option('--component <component>', 'this component only', parsed(Component))
    .option('--json', 'print JSON')
    .exitOverride()
    .action(
      action(async (version: string, { component, json }: { component?: Component; json?: true }) => {
        const { promote } = await import('./run-releases.ts');
        await promote(io, { version, component }, json === true ? { json } : {});
      }),
    );

  releases
    .command('sign')
    .description('sign again with the present key what earlier keys have signed')
    .option('--version <version>', 'this version only', parsed(Version))
    .exitOverride()
    .action(
      action(async (only: { version?: string }) => {
        const { sign } = await import('./run-releases.ts');
        return sign(io, only);
      }),
    );

  releases
    .command('rotate-key')
    .description(
      'replace the key that signs releases; the present one signs the new one, so that devices trust it',
    )
    .option(
      '--new-chain',
      'if the present key is lost: no enrolled device installs what the new key signs until it is enrolled again',
    )
    .exitOverride()
    .action(
      action(async ({ newChain }: { newChain?: true }) => {
        const { rotateKey } = await import('./run-releases.ts');
        await rotateKey(io, { vouched: newChain !== true });
      }),
    );
}

const parsed =
  <T>(schema: z.ZodType<T>) =>
  (text: string): T => {
    const result = schema.safeParse(text);
    if (result.success) return result.data;
    throw new InvalidArgumentError(result.error.issues[0]?.message ?? '');
  };
