import { mkdir, readdir, readFile, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { JournalFile } from '../../../../src/agent/work/journal-file.ts';
import {
  readPrivateJson,
  removeOldDrafts,
  writePrivateJson,
} from '../../../../src/agent/os/files/private-file.ts';
import { codeOf, temporaryFolder } from '../../../support/agent/collect.ts';

describe('agent: private files', () => {
  let folder: string;
  let remove: () => Promise<void>;
  let victim: string;

  beforeEach(async () => {
    ({ folder, remove } = await temporaryFolder());
    victim = path.join(folder, 'victim');
    await writeFile(victim, '"untouched"');
  });
  afterEach(() => remove());

  it('are written under unpredictable names, and never through a link', async () => {
    const file = path.join(folder, 'settings.json');
    await symlink(victim, `${file}.${process.pid}.tmp`);
    await symlink(victim, file);
    await writePrivateJson(file, { a: 1 });
    expect(await readFile(victim, 'utf8')).to.equal('"untouched"');
    expect(await readPrivateJson(file)).to.deep.equal({ a: 1 });
    expect((await stat(file)).mode & 0o777).to.equal(0o600);
  });

  it('are not read through a link, nor from anything but a regular file', async () => {
    const file = path.join(folder, 'settings.json');
    await symlink(victim, file);
    expect(await codeOf(readPrivateJson(file))).to.contain('settings.json');
    await mkdir(path.join(folder, 'folder.json'));
    expect(await codeOf(readPrivateJson(path.join(folder, 'folder.json')))).to.contain('folder.json');
  });

  it('include the journal, which is neither opened nor replaced through a link', async () => {
    const linked = path.join(folder, 'linked.journal');
    await symlink(victim, linked);
    expect(await codeOf(new JournalFile(linked, () => {}).open())).not.to.equal('no error');

    const file = path.join(folder, 'own.journal');
    const journal = new JournalFile(file, () => {});
    await journal.open();
    await symlink(victim, `${file}.new`);
    await journal.replace(() => [{ kind: 'done', id: 'a', at: 1 }]);
    await journal.close();
    expect(await readFile(victim, 'utf8')).to.equal('"untouched"');
    expect(await readFile(file, 'utf8')).to.contain('"done"');
  });

  it('leave no drafts behind: those of a killed process are removed after an hour', async () => {
    const file = path.join(folder, 'settings.json');
    await writePrivateJson(file, {});
    expect(await readdir(folder)).to.have.members(['settings.json', 'victim']);
    const drafts = ['settings.json.0123456789abcdef.draft', 'status.json.fedcba9876543210.draft'];
    for (const name of drafts) await writeFile(path.join(folder, name), '');
    const long = new Date(Date.now() - 2 * 3_600_000);
    await utimes(path.join(folder, drafts[0]!), long, long);
    await removeOldDrafts(folder);
    expect(await readdir(folder)).to.have.members(['settings.json', 'victim', drafts[1]]);
  });
});
