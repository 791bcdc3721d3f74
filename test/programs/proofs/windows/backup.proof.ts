import { expect } from 'chai';
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { eventually } from '../../../support/eventually.ts';
import { giveSecondFactor } from '../../../support/factories.ts';
import {
  connectedDevice,
  type ManagedWindows,
  startManagedWindows,
} from '../../windows/support/managed-windows.ts';
import { needsWine } from '../../windows/support/needs-wine.ts';

/**
 * Backup and restore on Windows (Wine) with restic's own Windows build, which `RESTIC_EXE` names: no package of Debian or
 * npm has it. It can be built from Debian's source: `GOOS=windows go build ./cmd/restic`.
 */

const RESTIC = process.env['RESTIC_EXE'];
const SOURCE = String.raw`C:\Users\anna\Documents`;
/** The name of a folder, of which twenty make a path of more than the 260 characters of old programs. */
const DEEP = 'a folder with a long name';
const FILES: Readonly<Record<string, string>> = {
  'report.txt': 'one\r\n',
  'Übersicht 東京 😀.txt': 'two\r\n',
  "it's 100% (final) [2] & more; #1.txt": 'three\r\n',
  '.hidden': 'four',
  empty: '',
  [`${`${DEEP}/`.repeat(20)}deep.txt`]: 'five',
};

describe('a backup on Windows, and its restore', function () {
  this.timeout(600_000);
  let folder: string;
  let windows: ManagedWindows;
  let deviceId: string;

  const send = async (where: string, body: object) => {
    const answer = await windows.app.call('POST', where, { token: windows.tenant.admin.token, body });
    expect(answer.status, JSON.stringify(answer.body)).to.be.within(200, 299);
    return answer.body;
  };

  before(async function () {
    needsWine(this);
    if (RESTIC === undefined) {
      // oxlint-disable-next-line no-console -- a proof that does not run has to say so
      console.warn('      skipped: RESTIC_EXE names no restic for Windows');
      this.skip();
    }
    folder = await mkdtemp(path.join(tmpdir(), 'muster-windows-backup-'));
    await chmod(folder, 0o711);
    windows = await startManagedWindows(undefined, { DATA_DIR: folder });
    await giveSecondFactor(windows.app, windows.tenant.admin);
    windows.machine.standIns.on('wevtutil', () => ({ output: '' }));
    await copyFile(RESTIC, windows.machine.host(String.raw`C:\windows\system32\restic.exe`));
    for (const [name, content] of Object.entries(FILES)) {
      const file = path.join(windows.machine.host(SOURCE), name);
      await mkdir(path.dirname(file), { recursive: true });
      await writeFile(file, content);
    }
    deviceId = await connectedDevice(windows);
  });
  after(async () => {
    await windows?.close();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  it('brings back every file, whatever its name and however deep', async () => {
    const { orgId } = windows.tenant;
    const key = await send('/backup/encryption/keys', { orgId, name: 'Key' });
    const config = await send('/backup/configs', {
      orgId,
      name: 'Documents',
      provider: 'server',
      encryptionKeyId: key.id,
      sources: { paths: { windows: [SOURCE] } },
      targets: { deviceIds: [deviceId] },
    });
    const ordered = await send(`/backup/jobs/run/${deviceId}`, { configId: config.id });
    const job = await eventually(
      () => windows.get(`/backup/jobs/${ordered.id}`),
      ({ finishedAt }) => finishedAt !== null,
      180_000,
    );
    expect(job, JSON.stringify(job)).to.include({ status: 'completed', error: null });
    // Wine has no shadow copies, and a backup without them is better than none.
    expect(job.shadowCopies).to.include({ used: false });
    const targetPath = String.raw`C:\restored`;
    const { id } = await send('/backup/restore', { snapshotId: job.snapshotId, targetPath });
    const restore = await eventually(
      () => windows.get(`/backup/restore/${id}`),
      ({ completedAt }) => completedAt !== null,
      180_000,
    );
    expect(restore, JSON.stringify(restore)).to.include({ status: 'completed', error: null });
    const restored = windows.machine.host(targetPath);
    const found = (await readdir(restored, { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile())
      .map((entry) => path.join(entry.parentPath, entry.name));
    const root = found.find((file) => file.endsWith('report.txt'))?.slice(0, -'report.txt'.length) ?? '';
    const contents = await Promise.all(
      found.map(async (file) => [file.slice(root.length), await readFile(file, 'utf8')] as const),
    );
    expect(Object.fromEntries(contents)).to.deep.equal(FILES);
  });
});
