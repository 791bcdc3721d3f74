import { signReleases } from '../../features/releases/operator.ts';
import type { CommandIo } from '../io.ts';
import { withReleases } from './with-releases.ts';

export async function sign(io: CommandIo, only: { version?: string }): Promise<number> {
  const { signed, refused } = await withReleases(io, (parts) => signReleases(parts, only));
  for (const release of signed) {
    io.stdout.write(`${nameOf(release)} is signed by key ${release.keyId}.\n`);
  }
  if (signed.length + refused.length === 0) {
    io.stdout.write('All of them are signed by the present key. Nothing was changed.\n');
  }
  for (const release of refused) {
    io.stderr.write(
      `${nameOf(release)}: its signature does not hold, so it was not signed again. Publish its file again with: releases add\n`,
    );
  }
  return refused.length > 0 ? 2 : 0;
}

type Release = Awaited<ReturnType<typeof signReleases>>['signed'][number];

const nameOf = ({ component, version, os, architecture }: Release) =>
  `${component} ${version} for ${os} ${architecture}`;
