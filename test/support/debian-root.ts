import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import path from 'node:path';

/**
 * Roots of a real Debian for containers. They are made once by debootstrap and apt (a minute, and about 60 MB from
 * Debian's servers) and kept as tar archives in `~/.cache/muster-test-machines`. Needs root.
 */

export type Init = 'systemd' | 'openrc' | 'none';

const CACHE = process.env['MUSTER_TEST_MACHINES'] ?? path.join(homedir(), '.cache', 'muster-test-machines');
const BASE_PACKAGES = ['curl', 'ca-certificates', 'procps'];
const INIT_PACKAGES = {
  systemd: ['systemd-sysv'],
  // As on Devuan: the init of System V starts OpenRC.
  openrc: ['sysvinit-core', 'openrc'],
  none: [],
} satisfies Record<Init, string[]>;

/** Unpacks a root of its own for one container. */
export async function debianRoot(init: Init): Promise<string> {
  const archive = await debianArchive(init);
  const root = await mkdtemp(path.join(tmpdir(), `muster-${init}-root-`));
  run('tar', '-C', root, '-xf', archive);
  return root;
}

/** A root as a tar archive. */
export async function debianArchive(init: Init): Promise<string> {
  const archive = path.join(CACHE, `debian-bookworm-${init}.tar`);
  if (existsSync(archive)) return archive;
  await mkdir(CACHE, { recursive: true });
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-debian-root-'));
  const root = path.join(folder, 'root');
  try {
    if (init === 'none') {
      run('debootstrap', '--variant=minbase', `--include=${BASE_PACKAGES.join(',')}`, 'bookworm', root);
    } else {
      await mkdir(root);
      run('tar', '-C', root, '-xf', await debianArchive('none'));
      installInit(root, init);
    }
    run('chroot', root, 'sh', '-c', 'apt-get clean && rm -rf /var/lib/apt/lists/*');
    run('tar', '-C', root, '-cf', `${archive}.new`, '.');
    await rename(`${archive}.new`, archive);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return archive;
}

/** By apt, because debootstrap does not choose between the packages that start services. */
function installInit(root: string, init: Exclude<Init, 'none'>): void {
  const inside = (line: string) => run('chroot', root, 'sh', '-c', line);
  const packages = INIT_PACKAGES[init].join(' ');
  inside(
    `apt-get -qq update && apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends ${packages}`,
  );
  // Each container gets an id of its own; and there are no consoles on which anybody could sign in.
  inside(': >/etc/machine-id; if [ -e /etc/inittab ]; then sed -i /getty/d /etc/inittab; fi');
}

function run(program: string, ...words: string[]): void {
  const env = { ...process.env, LC_ALL: 'C', DEBIAN_FRONTEND: 'noninteractive' };
  execFileSync(program, words, { stdio: ['ignore', 'ignore', 'inherit'], env });
}
