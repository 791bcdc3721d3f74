import { mkdir, readdir, rename, stat, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { saveCredentials } from '../../../../src/agent/core/settings.ts';
import { openDeviceFolder, removeData } from '../../../../src/agent/core/remove-data.ts';
import { agentCommand, startAgent } from '../../../support/agent-program.ts';
import { eventually } from '../../../support/eventually.ts';
import { startScriptedHub } from '../../../support/scripted-hub.ts';
import { temporaryFolder } from '../../../support/agent/collect.ts';

const ID = '0198f3a0-1111-7000-8000-00000000000a';

describe('agent: removal of its files', function () {
  this.timeout(120_000);
  let parent: string;
  let folder: string;
  let remove: () => Promise<void>;

  beforeEach(async () => {
    ({ folder: parent, remove } = await temporaryFolder());
    // The name of a folder says nothing about what is in it.
    folder = path.join(parent, 'muster-agent');
    await mkdir(folder, { mode: 0o700 });
  });
  afterEach(async () => remove());

  const credentials = (server: string) => ({
    server,
    deviceId: ID,
    orgId: 'o',
    siteId: 's',
    token: 't',
    heartbeatSeconds: 60,
    enrolledAt: new Date().toISOString(),
  });
  const write = async (name: string) => {
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
    await writeFile(path.join(folder, name), name);
  };
  const filesIn = async (place: string) =>
    (await readdir(place, { recursive: true, withFileTypes: true }))
      .filter((entry) => !entry.isDirectory())
      .map((entry) => path.relative(place, path.join(entry.parentPath, entry.name)))
      .sort();
  const isThere = async (place: string) => (await stat(place).catch(() => undefined)) !== undefined;

  it('removes everything that a running agent has written, and the folder', async () => {
    const hub = await startScriptedHub();
    try {
      await saveCredentials(folder, credentials(hub.url));
      const program = startAgent(['run', '--data-dir', folder]);
      await eventually(
        () => hub.sockets.length,
        (count) => count > 0,
        30_000,
      );
      program.child.kill('SIGKILL');
      await program.ended;
      expect(await filesIn(folder)).to.not.have.length(0);
      // A server that answers nothing about this device is one that is not reached.
      const { output } = await agentCommand(['unenroll', '--force', '--data-dir', folder]);
      expect(output).to.contain('The files of the agent are removed.').and.to.not.contain('stay');
    } finally {
      await hub.close();
    }
    expect(await isThere(folder)).to.equal(false);
  });

  it('keeps the files of others, wherever they lie, and the folders they lie in', async () => {
    await saveCredentials(folder, credentials('https://a.example.com'));
    const device = await openDeviceFolder(folder, { server: 'https://a.example.com', deviceId: ID });
    const ofAgent = [
      path.relative(folder, path.join(device, 'commands.journal')),
      path.relative(folder, path.join(device, 'shipping/lines/000000000001.jsonl')),
      // Whatever the agent keeps about a device, also in a later release.
      path.relative(folder, path.join(device, 'samples.json')),
      path.relative(folder, path.join(device, 'of/a/later/release')),
      'terminals.json',
      'logs/agent.jsonl',
      'logs/watchdog.jsonl.1',
      'scripts/run-a1B2c3/work/result.txt',
      'upgrades/trial.json',
      'upgrades/agent-ends.json',
      'upgrades/observation.json',
      'upgrades/trial.json.0123456789abcdef.draft',
      `upgrades/downloads/${'a'.repeat(64)}.part`,
      'backup/engine/cache/CACHEDIR.TAG',
      `backup/staging/${ID}/etc/hosts`,
      'backup/database-processes/4711.json',
      `backup/images/${ID}.journal`,
      'backup/image-volumes/0/copy.img',
      `backup/machines/${ID}/disk0.qcow2`,
      `backup/mounts/${'b'.repeat(64)}.log`,
      `backup/spool/${ID}/data.sql`,
      'backup/sql/0123456789abcdef.sql',
      'watchdog.json',
    ];
    const ofOthers = [
      'thesis.tex',
      'logs/nginx/access.log',
      'scripts/deploy.sh',
      'upgrades/notes.txt',
      `backup/restored/${ID}/photo.jpg`,
      'backup/monday.tar',
      `backup/mounts/${'c'.repeat(64)}/snapshot/photo.jpg`,
      'machines/web/disk0.qcow2',
      'devices/printer/manual.pdf',
      'credentials.json.bak',
    ];
    for (const name of [...ofAgent, ...ofOthers]) await write(name);
    const { output } = await agentCommand(['unenroll', '--force', '--data-dir', folder]);
    expect(output).to.contain('These are not the agent’s, and stay:').and.to.contain('thesis.tex');
    expect(await filesIn(folder)).to.deep.equal([...ofOthers].sort());
  });

  it('follows no link, and removes no folder in the place of a file', async () => {
    const elsewhere = path.join(parent, 'elsewhere');
    await mkdir(path.join(elsewhere, 'run-a1B2c3'), { recursive: true });
    await writeFile(path.join(elsewhere, 'run-a1B2c3', 'kept'), '');
    await writeFile(path.join(elsewhere, 'agent.jsonl'), '');
    await symlink(elsewhere, path.join(folder, 'scripts'));
    await symlink(elsewhere, path.join(folder, 'logs'));
    await write('status.json/kept');
    const { foreign } = await removeData(folder);
    expect(foreign.map((each) => path.basename(each)).sort()).to.deep.equal([
      'logs',
      'scripts',
      'status.json',
    ]);
    expect(await filesIn(elsewhere)).to.deep.equal(['agent.jsonl', 'run-a1B2c3/kept']);
    // The folder itself is one that the agent made, and goes with the last of the others.
    await rename(path.join(folder, 'status.json'), path.join(parent, 'moved'));
    for (const link of ['scripts', 'logs']) await rename(path.join(folder, link), path.join(parent, link));
    expect(await removeData(folder)).to.deep.equal({ foreign: [], inUse: [] });
    expect(await isThere(folder)).to.equal(false);
  });
});
