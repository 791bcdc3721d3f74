import { mkdir, readdir, stat, statfs, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { assertSpace, checkDownload, stage } from '../../../../../src/agent/capabilities/update/offer.ts';
import type { UpdateFault } from '../../../../../src/agent/capabilities/update/download.ts';
import { programFile } from '../../../../../src/agent/os/releases/layout.ts';
import type { UpgradableComponent } from '../../../../../src/protocol/index.ts';
import { signed, signingKey } from '../../../../support/agent/release-forge.ts';
import { temporaryFolder } from '../../../../support/agent/test-agent.ts';

const BYTES = Buffer.from('the program');

describe('the staging of a release', () => {
  const key = signingKey();
  let folder: string;
  let programs: string;
  let download: string;
  let remove: () => Promise<void>;
  beforeEach(async () => {
    ({ folder, remove } = await temporaryFolder());
    programs = path.join(folder, 'programs');
    download = path.join(folder, 'download.part');
    await writeFile(download, BYTES);
  });
  afterEach(() => remove());

  const offerOf = (component: UpgradableComponent, bytes = BYTES) => ({
    component,
    release: signed(key, bytes, { component, version: '5.0.0' }),
    url: 'https://muster.example/release',
    isPinned: false,
  });
  const faultOf = (work: Promise<unknown>) =>
    work.then(
      () => undefined,
      ({ code, isTemporary }: UpdateFault) => [code, isTemporary],
    );

  it('makes a watchdog that can be started, and an agent that its watchdog runs', async () => {
    for (const [component, mode] of [
      ['watchdog', 0o755],
      ['agent', 0o644],
    ] as const) {
      await writeFile(download, BYTES);
      await stage(programs, offerOf(component), download);
      expect((await stat(programFile(programs, component, '5.0.0'))).mode & 0o777).to.equal(mode);
      expect(await readdir(path.join(programs, component))).to.deep.equal(['5.0.0']);
    }
    expect(await readdir(folder), 'the download has been moved').to.deep.equal(['programs']);
  });

  it('keeps the installed release if the file changed after the check, and may retry', async () => {
    const standing = path.join(programs, 'agent', '5.0.0');
    await mkdir(standing, { recursive: true });
    await writeFile(path.join(standing, 'kept'), '');
    await writeFile(download, 'another program');
    expect(await faultOf(stage(programs, offerOf('agent'), download))).to.deep.equal([
      'CHECKSUM_MISMATCH',
      true,
    ]);
    expect(await readdir(standing)).to.deep.equal(['kept']);
  });

  it('needs room for the download and for the program, and some to spare, in each folder', async () => {
    const other = path.join(folder, 'other');
    await assertSpace([folder, other], 1);
    expect((await stat(other)).isDirectory()).to.equal(true);
    const { bavail, bsize } = await statfs(folder);
    // More than half of what is free, so that one copy would find room, and two would not.
    const size = Math.ceil(bavail * bsize * 0.6);
    expect(await faultOf(assertSpace([folder, other], size))).to.deep.equal(['NO_SPACE', true]);
    expect(await faultOf(assertSpace([], size))).to.equal(undefined);
  });

  it('refuses a download that is not what was signed, and removes it', async () => {
    const { release } = offerOf('agent');
    await checkDownload(download, release);
    expect(await readdir(folder)).to.deep.equal(['download.part']);
    await writeFile(download, Buffer.alloc(BYTES.length));
    expect(await faultOf(checkDownload(download, release))).to.include('CHECKSUM_MISMATCH');
    expect(await readdir(folder)).to.deep.equal([]);
  });
});
