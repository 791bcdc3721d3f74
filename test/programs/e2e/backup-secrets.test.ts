import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { enginesOf } from '../proofs/backup/support/kills.ts';
import { passwordFor, repositoryOf } from '../proofs/backup/support/guarantees.ts';
import { startWorld, type World } from '../proofs/backup/support/world.ts';
import { eventually } from '../../support/eventually.ts';
import { needsRestic } from '../../support/restic.ts';

/**
 * A whole life of a backup, with everybody logging at the level debug, and then a search for its secrets in everything
 * that it leaves, and in what others on the machine can see of restic while it runs.
 */
describe('the secrets of backups', function () {
  this.timeout(300_000);
  let world: World;

  before(async function () {
    needsRestic(this);
    world = await startWorld({ env: { LOG_LEVEL: 'debug' } });
  });
  after(async () => world?.close());

  it('are in no row, no file, no log, no answer, and not in the view of other processes', async () => {
    const device = await world.addDevice({ limits: { uploadKiBps: 3000 } });
    await writeFile(path.join(device.source, 'large'), randomBytes(6_000_000));
    const material = randomBytes(32).toString('base64');
    const { body: known } = await world.send('POST', '/backup/encryption/keys', {
      orgId: world.orgId,
      name: 'Known',
      material,
    });
    await device.start();
    const answers = [JSON.stringify(known)];

    const job = await device.order();
    const seen = await eventually(
      () => viewOf(device),
      (view) => view.length > 0,
      60_000,
    );
    answers.push(JSON.stringify(await device.ended(job)));
    const repository = await repositoryOf(world, device);
    const password = await passwordFor(world, repository);
    const { snapshotId, status } = await device.job(job);
    expect(status).to.equal('completed');

    const targetPath = path.join(world.dataDir, 'back');
    await mkdir(targetPath);
    const restore = await device.orderRestore({ snapshotId, targetPath });
    answers.push(JSON.stringify(await device.restored(restore)));
    const rotated = await world.ask('POST', `/backup/encryption/keys/${world.keyId}/rotate`, {});
    answers.push(JSON.stringify(rotated));
    for (const where of ['/backup/encryption/keys', '/backup/configs', '/backup/jobs', '/backup/restore']) {
      answers.push(JSON.stringify(await world.ask('GET', `${where}?orgId=${world.orgId}`)));
    }
    const kit = JSON.stringify(await world.ask('GET', `/backup/encryption/keys/${world.keyId}/recovery-kit`));
    expect(kit, 'the kit is what has the password').to.contain(JSON.stringify(password).slice(1, -1));

    const secrets = { password, material };
    const places: Record<string, string> = {
      'what other processes see of restic': seen,
      'the log of the server': world.serverOutput(),
      'the log of the agent': device.agentOutput(),
      answers: answers.join('\n'),
      'the database': await everyRow(world),
      'the folder of the server': await everyFile(path.join(world.dataDir, 'server')),
      'the folder of the agent': await everyFile(device.agentDir),
    };
    for (const [where, text] of Object.entries(places)) {
      expect(text.length, where).to.be.greaterThan(20);
      for (const [what, secret] of Object.entries(secrets)) {
        for (const form of formsOf(secret)) {
          expect(text.includes(form), `${what} in ${where}`).to.equal(false);
        }
      }
      // Credentials of the store: every one begins like this, and only its hash is kept.
      expect(text.match(/mbak_[A-Za-z0-9]{20,}/)?.[0], `a credential in ${where}`).to.equal(undefined);
    }
  });
});

/** As it is, as bytes, and in the encodings in which it could stand in a log or a URL. */
const formsOf = (secret: string) => [
  secret,
  encodeURIComponent(secret),
  Buffer.from(secret).toString('base64').replaceAll('=', ''),
  Buffer.from(secret).toString('hex'),
  Buffer.from(secret, 'base64').toString('hex'),
];

/** Command line and environment of each restic of the agent. */
async function viewOf(device: Parameters<typeof enginesOf>[0]): Promise<string> {
  const texts: string[] = [];
  for (const pid of await enginesOf(device)) {
    for (const file of ['cmdline', 'environ']) {
      texts.push(await readFile(`/proc/${pid}/${file}`, 'latin1').catch(() => ''));
    }
  }
  const text = texts.join('\n');
  // Of the process between its beginning and the start of restic, there is nothing to see.
  return text.includes('backup') ? text : '';
}

/** Of every table, as text. */
async function everyRow(world: World): Promise<string> {
  const db = await world.pool();
  const { rows: tables } = await db.raw<{ rows: { name: string }[] }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = 'public'`,
  );
  const texts: string[] = [];
  for (const { name } of tables) {
    const { rows } = await db.raw<{ rows: { text: string }[] }>(
      `select to_jsonb(t)::text as text from ${name} t`,
    );
    texts.push(...rows.map(({ text }) => text));
  }
  return texts.join('\n');
}

async function everyFile(folder: string): Promise<string> {
  const names = await readdir(folder, { recursive: true, withFileTypes: true });
  const texts: string[] = [];
  for (const entry of names) {
    if (!entry.isFile()) continue;
    const file = path.join(entry.parentPath, entry.name);
    texts.push(file, await readFile(file, 'latin1').catch(() => ''));
  }
  return texts.join('\n');
}
