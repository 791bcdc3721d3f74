import { mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { changeCredentials, loadCredentials, saveCredentials } from '../../../../src/agent/core/settings.ts';
import { openDeviceFolder } from '../../../../src/agent/core/remove-data.ts';
import { KeptTokens } from '../../../../src/agent/core/tokens.ts';
import { temporaryFolder } from '../../../support/agent/collect.ts';

const A = { server: 'https://a.example.com', deviceId: 'd' };
const CREDENTIALS = {
  ...A,
  orgId: 'o',
  siteId: 's',
  token: 'old',
  nextToken: 'next',
  heartbeatSeconds: 60,
  enrolledAt: '2026-01-01T00:00:00.000Z',
};

describe('agent: the folder of a device', () => {
  let folder: string;
  let remove: () => Promise<void>;

  beforeEach(async () => {
    ({ folder, remove } = await temporaryFolder());
  });
  afterEach(() => remove());

  it('is separate for each device and server, and is found again', async () => {
    const own = await openDeviceFolder(folder, A);
    await writeFile(path.join(own, 'commands.journal'), 'a');
    const others = [
      await openDeviceFolder(folder, { ...A, deviceId: '../d' }),
      await openDeviceFolder(folder, { ...A, server: 'https://b.example.com' }),
    ];
    expect(new Set([own, ...others])).to.have.property('size', 3);
    for (const other of others) expect(path.dirname(other)).to.equal(path.dirname(own));
    expect(await openDeviceFolder(folder, A)).to.equal(own);
    expect(await readFile(path.join(own, 'commands.journal'), 'utf8')).to.equal('a');
    expect((await stat(own)).mode & 0o777).to.equal(0o700);
  });

  it('receives the files of an earlier release, which had no such folder', async () => {
    await writeFile(path.join(folder, 'commands-d.journal'), 'journal');
    await mkdir(path.join(folder, 'shipping/d/events'), { recursive: true });
    const own = await openDeviceFolder(folder, A);
    expect(await readdir(own)).to.have.members(['commands.journal', 'shipping']);
  });

  it('is removed a month after the machine was that device, its unsent records at once', async () => {
    const own = await openDeviceFolder(folder, A);
    await mkdir(path.join(own, 'shipping'));
    await writeFile(path.join(own, 'commands.journal'), '');
    const other = { ...A, deviceId: 'other' };
    await openDeviceFolder(folder, other);
    expect(await readdir(own)).to.deep.equal(['commands.journal']);
    const long = new Date(Date.now() - 31 * 86_400_000);
    await utimes(path.join(own, 'commands.journal'), long, long);
    await openDeviceFolder(folder, other);
    expect(await readdir(path.join(folder, 'devices'))).to.have.length(1);
  });

  it('keeps a new enrollment when the agent of the former device writes its credentials', async () => {
    await saveCredentials(folder, CREDENTIALS);
    const tokens = new KeptTokens(folder, CREDENTIALS);
    const enrolled = { ...CREDENTIALS, deviceId: 'other', token: 'of-another' };
    await saveCredentials(folder, enrolled);
    expect(await tokens.current(), 'the token of its own device').to.equal('next');
    await tokens.accepted('next');
    expect(await loadCredentials(folder)).to.deep.equal(enrolled);
    expect(await tokens.current()).to.equal('next');
  });

  it('keeps simultaneous changes of the credentials', async () => {
    await saveCredentials(folder, CREDENTIALS);
    await Promise.all(
      Array.from({ length: 8 }, () =>
        changeCredentials(folder, (kept) => ({ ...kept!, token: `${kept!.token}+` })),
      ),
    );
    expect((await loadCredentials(folder))!.token).to.equal('old++++++++');
  });
});
