import { expect } from 'chai';
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { AGENT_VERSION } from '../../../src/agent/core/version.ts';
import { saveCredentials } from '../../../src/agent/core/settings.ts';
import { makeDiskImage, needsDiskPrograms } from '../../support/disk-image.ts';
import { eventually } from '../../support/eventually.ts';
import { type BackupBench, openBackupBench } from '../agent/capabilities/backup/backup-bench.ts';
import { writeFiles } from '../engine/engine-support.ts';
import { builtWindowsAgent } from './support/built-windows-agent.ts';
import { needsWine } from './support/needs-wine.ts';
import { DATA_DIR, startWindowsHost, type WindowsHost } from './support/windows-host.ts';

/** Files of the image of a Linux machine, which the agent brings to a Windows machine (Wine). */
describe('files of Linux on Windows', function () {
  this.timeout(300_000);
  const TARGET = String.raw`C:\restored`;
  /**
   * Nearly 260 characters below the folder in which the agent prepares files. Of longer ones Wine cannot tell where an open
   * file is (GetFinalPathNameByHandle ends with ERROR_MORE_DATA), which Windows can.
   */
  const DEEP = `${'deep-folder-of-forty-characters-in-its-name/'.repeat(4)}leaf.txt`;
  let bench: BackupBench;
  let windows: WindowsHost;
  let snapshotId: string;

  before(async function () {
    needsWine(this);
    needsDiskPrograms(this);
    bench = await openBackupBench(this);
    await writeFiles(bench.at('source'), {
      'names/usual.txt': 'usual',
      'names/Größe 東京.txt': 'letters',
      'names/con': 'a device',
      'names/AUX.txt': 'a device with an ending',
      'names/com¹.log': 'a device with a superscript digit',
      'names/console.txt': 'no device',
      'names/a:b': 'a stream',
      'names/dot.': 'ends with a dot',
      'case/readme': 'one',
      'case/README': 'another one',
      [DEEP]: 'deep',
    });
    await makeDiskImage(bench.at('disk.raw'), { folder: bench.at('source') });
    snapshotId = (await bench.run('backup.image', {})).snapshotId ?? '';

    windows = await startWindowsHost();
    await saveCredentials(windows.dataDir, {
      server: bench.hub.url,
      deviceId: 'd',
      orgId: 'o',
      siteId: 's',
      token: 'the-token-of-the-device',
      heartbeatSeconds: 60,
      enrolledAt: new Date().toISOString(),
    });
    await installRestic();
    const sockets = bench.hub.sockets.length;
    const { program } = await builtWindowsAgent(AGENT_VERSION);
    windows.machine.start(program, ['run', '--data-dir', DATA_DIR]);
    await eventually(
      () => bench.hub.sockets.length,
      (count) => count > sockets,
      60_000,
    );
  });
  after(async () => {
    await windows?.close();
    await bench?.close();
  });

  /** There is no restic for Wine, so that of this machine does what the agent wants, with the paths of this machine. */
  async function installRestic(): Promise<void> {
    const { machine } = windows;
    const home = bench.at('home');
    const onThisMachine = (text: string) =>
      text
        .replaceAll(/C:\\[^"*]*/g, (file) => machine.host(file))
        .replaceAll(/Z:(\\[^"*]*)/g, (_match, file: string) => file.replaceAll('\\', '/'));
    await machine.standIns.install('restic');
    machine.standIns.on('restic', async ({ args }) => {
      const words = args.map(onThisMachine);
      // The address of the repository is in a file, because it may hold a password.
      const place = words.indexOf('--repository-file') + 1;
      if (place > 0) {
        words.splice(place - 1, 2, '--repo', onThisMachine(await readFile(words[place] ?? '', 'utf8')));
      }
      const env = { PATH: process.env['PATH'] ?? '', HOME: home };
      const { stdout } = await promisify(execFile)('restic', words, { env, encoding: 'buffer' });
      return { output: stdout };
    });
  }

  const restored = (...names: string[]) => path.join(windows.machine.host(TARGET), ...names);
  const restore = (overwrite: 'never' | 'always') => {
    const { destination } = bench.access;
    if (destination.type !== 'local') throw new Error('The repository is on disk.');
    // Wine has the root of this machine as drive Z.
    const onWindows = { ...destination, path: `Z:${destination.path.replaceAll('/', '\\')}` };
    return bench.run('backup.image-files-restore', {
      snapshotId,
      repository: { ...bench.access, destination: onWindows },
      targetPath: TARGET,
      overwrite,
    });
  };

  it('are restored, but for those whose names Windows does not have, which are named with the reason', async () => {
    const result = await restore('always');
    expect(result.status).to.equal('partial');
    const refused = result.failed.paths.filter(({ path: name }) => !name.startsWith('/case/'));
    expect(refused.map(({ path: name }) => name)).to.have.members(
      ['con', 'AUX.txt', 'com¹.log', 'a:b', 'dot.'].map((name) => `/names/${name}`),
    );
    expect(new Set(refused.map(({ message }) => message))).to.deep.equal(
      new Set(['Windows allows no such name']),
    );
    expect((await readdir(restored('names'))).toSorted()).to.deep.equal([
      'Größe 東京.txt',
      'console.txt',
      'usual.txt',
    ]);
    expect(await readFile(restored('names', 'Größe 東京.txt'), 'utf8')).to.equal('letters');
    expect(await readFile(restored(...DEEP.split('/')), 'utf8')).to.equal('deep');
  });

  it('never take the place of another one whose name differs by case only', async () => {
    const result = await restore('never');
    const lost = result.failed.paths.filter(({ path: name }) => name.startsWith('/case/'));
    expect(lost).to.have.length(1);
    expect(lost[0]?.message).to.equal('here its name is that of another one');
    const [kept] = await readdir(restored('case'));
    const text = await readFile(restored('case', kept ?? ''), 'utf8');
    expect(text).to.equal(kept === 'readme' ? 'one' : 'another one');
  });
});
