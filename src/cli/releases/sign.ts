import { signReleases } from '../../features/releases/index.ts';
import { withReleases } from './with-releases.ts';

export async function sign(only: { version?: string }): Promise<void> {
  const { signed, refused } = await withReleases((parts) => signReleases(parts, only));
  for (const release of signed) {
    process.stdout.write(`${nameOf(release)} is signed by key ${release.keyId}.\n`);
  }
  if (signed.length + refused.length === 0) {
    process.stdout.write('All of them are signed by the present key. Nothing was changed.\n');
  }
  for (const release of refused) {
    process.stderr.write(
      `${nameOf(release)}: its signature does not hold, so it was not signed again. Publish its file again with: releases add\n`,
    );
  }
  if (refused.length > 0) process.exitCode = 2;
}

type Release = Awaited<ReturnType<typeof signReleases>>['signed'][number];

const nameOf = ({ component, version, os, architecture }: Release) =>
  `${component} ${version} for ${os} ${architecture}`;
