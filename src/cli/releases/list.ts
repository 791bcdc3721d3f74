import { listAllReleases } from '../../features/releases/operator.ts';
import type { CommandIo } from '../io.ts';
import { described } from './add.ts';
import { withReleases } from './with-releases.ts';

export async function printReleases(io: CommandIo, { json }: { json?: true }): Promise<void> {
  const releases = await withReleases(io, ({ db }) => listAllReleases(db));
  if (json === true) {
    io.stdout.write(`${JSON.stringify({ ok: true, releases: releases.map(described) })}\n`);
    return;
  }
  if (releases.length === 0) {
    io.stdout.write(
      'There are no releases. Build the agent with "npm run build:agent", and add it with "releases add dist/agent --version <version>".\n',
    );
  }
  for (const { component, version, os, architecture, promoted, source, size, sha256 } of releases) {
    const mark = promoted ? '*' : ' ';
    io.stdout.write(
      `${mark} ${component} ${version}  ${os} ${architecture}  ${source}  ${size}  ${sha256}\n`,
    );
  }
  if (releases.some(({ promoted }) => promoted)) io.stdout.write('* promoted: devices upgrade to it.\n');
}
