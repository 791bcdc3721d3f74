import { expect } from 'chai';
import { readFileSync } from 'node:fs';
import { chooseSources } from '../../../../../src/agent/capabilities/backup/virtual-file-systems.ts';
import { parseMounts } from '../../../../../src/agent/os/files/mounts.ts';

const table = (...lines: [number, number, string, string][]) =>
  parseMounts(
    lines
      .map(([id, parent, point, type]) => `${id} ${parent} 0:${id} / ${point} rw - ${type} none rw`)
      .join('\n'),
  );
/** A usual machine with a chroot, a disk of a user and a share. */
const MACHINE = table(
  [1, 0, '/', 'ext4'],
  [2, 1, '/proc', 'proc'],
  [3, 1, '/sys', 'sysfs'],
  [4, 3, '/sys/kernel/debug', 'debugfs'],
  [5, 1, '/dev', 'devtmpfs'],
  [6, 5, '/dev/shm', 'tmpfs'],
  [7, 1, '/run', 'tmpfs'],
  [8, 7, '/run/user/1000', 'tmpfs'],
  [9, 7, '/run/media/ada/DISK', 'ext4'],
  [10, 1, '/tmp', 'tmpfs'],
  [11, 1, '/srv/chroot/proc', 'proc'],
  [12, 1, '/srv/chroot/dev', 'tmpfs'],
  [13, 1, '/srv/chroot/run', 'tmpfs'],
  [14, 1, '/srv/share', 'nfs4'],
  [15, 1, String.raw`/srv/a\040[b]/cgroup`, 'cgroup2'],
);
const choose = (mounts: ReturnType<typeof parseMounts>, ...paths: string[]) =>
  chooseSources(
    paths.map((path) => ({ path, real: path })),
    mounts,
  );
const leftOut = (...paths: string[]) => choose(MACHINE, ...paths).leftOut.map(({ path }) => path);

describe('virtual file systems among the sources of a backup', () => {
  it('are left out with their content, below a chroot too, and the folders stay', () => {
    expect(leftOut('/').sort()).to.deep.equal([
      '/dev',
      '/proc',
      '/run',
      '/srv/a [b]/cgroup',
      '/srv/chroot/dev',
      '/srv/chroot/proc',
      '/srv/chroot/run',
      '/sys',
    ]);
    expect(choose(MACHINE, '/srv').patterns.sort()).to.deep.equal([
      '/srv/a [[]b]/cgroup/*',
      '/srv/chroot/dev/*',
      '/srv/chroot/proc/*',
      '/srv/chroot/run/*',
    ]);
    expect(leftOut('/home', '/tmp', '/srv/share')).to.deep.equal([]);
  });

  it('are not backed up as sources, and the other sources are', () => {
    const { paths, refused } = choose(
      MACHINE,
      '/proc/self/task',
      '/etc',
      '/dev/pts',
      '/run',
      '/srv/chroot/proc',
    );
    expect(paths).to.deep.equal(['/etc']);
    expect(refused.map(({ path, type }) => `${path} ${type}`)).to.deep.equal([
      '/proc/self/task proc',
      '/dev/pts devtmpfs',
      '/run tmpfs',
      '/srv/chroot/proc proc',
    ]);
  });

  it('are known by what a path leads to, whatever links or mounts are on the way', () => {
    const linked = chooseSources([{ path: '/var/run/app', real: '/run/app' }], MACHINE);
    expect(linked.refused).to.deep.equal([{ path: '/var/run/app', type: 'tmpfs' }]);
    const host = chooseSources([{ path: '/link/root', real: '/' }], MACHINE);
    expect(host.patterns).to.include('/link/root/proc/*');
    // A disk that is mounted over a chroot hides what was mounted in it.
    const hidden = table(
      [1, 0, '/', 'ext4'],
      [2, 1, '/srv/proc', 'proc'],
      [3, 1, '/srv', 'xfs'],
      [4, 1, '/data', 'proc'],
      [5, 4, '/data', 'ext4'],
      [6, 1, '/late', 'ext4'],
      [7, 6, '/late', 'proc'],
    );
    expect(choose(hidden, '/srv', '/data', '/late/x')).to.deep.include({
      paths: ['/srv', '/data'],
      leftOut: [],
      refused: [{ path: '/late/x', type: 'proc' }],
    });
  });

  it('can have a disk mounted below them, which is a source of its own', () => {
    expect(choose(MACHINE, '/dev/shm/work').paths).to.deep.equal(['/dev/shm/work']);
    const { paths, patterns, firstPatterns } = choose(MACHINE, '/', '/run/media/ada/DISK/photos');
    expect(paths).to.have.length(2);
    expect(patterns).to.include.members(['/proc/*', '/dev/*']).and.not.include('/run/*');
    expect(firstPatterns).to.deep.equal([
      '/run/*',
      '!/run/media',
      '/run/media/*',
      '!/run/media/ada',
      '/run/media/ada/*',
      '!/run/media/ada/DISK',
      '/run/media/ada/DISK/*',
      '!/run/media/ada/DISK/photos',
    ]);
  });

  it('are known without a table of mounts, and on this machine', () => {
    expect(choose([], '/', '/proc/1').refused).to.deep.equal([{ path: '/proc/1', type: 'proc' }]);
    expect(choose([], '/').leftOut.map(({ path }) => path)).to.deep.equal(['/proc', '/sys', '/dev', '/run']);
    const own = parseMounts(readFileSync('/proc/self/mountinfo', 'latin1'));
    expect(choose(own, '/').leftOut.map(({ path }) => path)).to.include.members(['/proc', '/sys', '/dev']);
  });

  it('cost little on a machine with thousands of mounts', () => {
    const many = table(
      [1, 0, '/', 'ext4'],
      ...Array.from(
        { length: 8000 },
        (_, n) =>
          [n + 2, 1, `/var/lib/pods/${n}/volumes`, n % 2 === 0 ? 'proc' : 'tmpfs'] as [
            number,
            number,
            string,
            string,
          ],
      ),
    );
    expect(choose(many, '/var').leftOut).to.have.length(4000);
  });
});
