import { listAllReleases } from '../../features/releases/index.ts';
import { withReleases } from './with-releases.ts';

export async function printReleases(): Promise<void> {
  const releases = await withReleases(({ db }) => listAllReleases(db));
  if (releases.length === 0) process.stdout.write('There are no releases.\n');
  for (const { component, version, os, architecture, promoted, source, size, sha256 } of releases) {
    const mark = promoted ? '*' : ' ';
    process.stdout.write(
      `${mark} ${component} ${version}  ${os} ${architecture}  ${source}  ${size}  ${sha256}\n`,
    );
  }
  if (releases.some(({ promoted }) => promoted)) process.stdout.write('* promoted: devices upgrade to it.\n');
}
