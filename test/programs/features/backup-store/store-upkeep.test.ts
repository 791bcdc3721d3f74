import { expect } from 'chai';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { holdTrash } from '../../../../src/features/backup-store/repository.service.ts';
import { FolderStorage } from '../../../../src/features/backup-store/folder-storage.ts';
import { S3Storage } from '../../../../src/features/backup-store/s3-storage.ts';
import type { ObjectStorage } from '../../../../src/features/backup-store/storage.ts';
import {
  purgeTrash,
  removeEndedLocks,
  reconcileAll,
} from '../../../../src/features/backup-store/upkeep.work.ts';
import { S3Error, type S3Options } from '../../../../src/platform/s3.ts';
import { S3Objects } from '../../../../src/platform/s3-objects.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { needsRestic } from '../../../support/restic.ts';
import { S3_KEYS, S3_REGION, type S3Server, startS3Server } from '../../../support/s3-server.ts';
import type { TestApp } from '../../../support/test-app.ts';
import {
  anObject,
  buildRepository,
  createStoreApp,
  end,
  inSystem,
  issue,
  objectRows,
  type Repository,
  request,
  resticAs,
} from '../../../support/backup/store-support.ts';

/** What was deleted stays for a while and can be served, wherever the objects are; and what a crash leaves is mended. */

for (const place of ['folder', 's3'] as const) {
  describe(`the trash of the backup store (${place})`, function () {
    this.timeout(120_000);
    let app: TestApp & { dataDir: string };
    let s3: S3Server | undefined;
    let bucket: S3Options;
    let storage: ObjectStorage;
    let repository: Repository;
    type Credential = Awaited<ReturnType<typeof issue>>;
    let device: Credential;
    let server: Credential;
    const signal = new AbortController().signal;

    before(async () => {
      s3 = place === 's3' ? await startS3Server({ bucket: 'backups' }) : undefined;
      bucket = {
        bucket: 'backups',
        endpoint: s3?.url ?? '',
        region: S3_REGION,
        ...S3_KEYS,
        pathStyle: true,
      };
      app = await createStoreApp(
        s3 === undefined
          ? {}
          : {
              env: {
                BACKUP_STORE_S3_BUCKET: 'backups',
                BACKUP_STORE_S3_ENDPOINT: s3.url,
                BACKUP_STORE_S3_REGION: S3_REGION,
                BACKUP_STORE_S3_PREFIX: 'some/where',
                BACKUP_STORE_S3_ACCESS_KEY_ID: S3_KEYS.accessKeyId,
                BACKUP_STORE_S3_SECRET_ACCESS_KEY: S3_KEYS.secretAccessKey,
              },
            },
      );
      const folder = path.join(app.dataDir, 'backups');
      storage =
        s3 === undefined
          ? new FolderStorage(folder)
          : new S3Storage(new S3Objects(bucket), { prefix: 'some/where', spool: path.join(folder, 'spool') });
    });
    after(async () => {
      await app.close();
      await s3?.close();
    });
    beforeEach(async () => {
      repository = await buildRepository(app);
      device = await issue(app, repository.id, 'device');
      server = await issue(app, repository.id, 'server');
    });

    const parts = () => ({ db: app.server.database.pool, storage, log: quietLog });
    const send = (credential: Credential, method: string, where: string, body?: Buffer) =>
      request(app.url, repository.id, credential, [method, where], { body });
    const names = async (credential: Credential, type = 'data'): Promise<string[]> =>
      JSON.parse(String((await send(credential, 'GET', `${type}/`)).body));
    const upload = async (type = 'data', credential = device) => {
      const { name, content } = anObject();
      expect((await send(credential, 'POST', `${type}/${name}`, content)).status).to.equal(200);
      return { name, content, place: `${type}/${name}` };
    };
    const clockPause = () => new Promise((resolve) => setTimeout(resolve, 20));
    const rows = () => objectRows(app.server.database.pool, repository.id);
    const age = (days: number) =>
      inSystem(app, (tx) =>
        tx('backup_objects')
          .whereNotNull('trashed_at')
          .update({ trashed_at: tx.raw(`now() - interval '${days} days'`) }),
      );

    it('serves a repository as of each time, and nothing can be written to it', async () => {
      const first = await upload();
      await clockPause();
      const before = new Date();
      await clockPause();
      const second = await upload();
      expect((await send(server, 'DELETE', first.place)).status).to.equal(200);
      await clockPause();
      const then = await issue(app, repository.id, 'as-of', { asOf: before });
      const now = await issue(app, repository.id, 'as-of', { asOf: new Date() });
      expect(await names(then)).to.deep.equal([first.name]);
      expect(await names(now)).to.deep.equal([second.name]);
      expect(await names(device)).to.deep.equal([second.name]);
      expect((await send(then, 'GET', first.place)).body).to.deep.equal(first.content);
      expect((await send(then, 'GET', second.place)).status).to.equal(404);
      expect((await send(device, 'GET', first.place)).status).to.equal(404);
      const { name, content } = anObject();
      for (const type of ['data', 'index', 'snapshots', 'keys']) {
        expect((await send(then, 'POST', `${type}/${name}`, content)).status, type).to.equal(403);
        expect((await send(then, 'DELETE', first.place)).status).to.equal(403);
      }
      // A lock is needed to read, and nobody else sees it.
      expect((await send(then, 'POST', `locks/${name}`, content)).status).to.equal(200);
      expect(await names(then, 'locks')).to.deep.equal([name]);
      expect(await names(server, 'locks')).to.deep.equal([]);
    });

    it('takes an object back that is uploaded again after it was deleted', async () => {
      const { content, name, place: where } = await upload();
      await send(server, 'DELETE', where);
      expect((await send(device, 'POST', where, content)).status).to.equal(200);
      expect(await names(device)).to.deep.equal([name]);
      expect((await send(device, 'GET', where)).body).to.deep.equal(content);
      await purgeTrash(parts(), { days: 0, signal });
      expect((await send(device, 'GET', where)).body, 'it is not in the trash').to.deep.equal(content);
    });

    it('is emptied after some days, unless the repository is held; earlier times are refused from then on', async () => {
      const kept = await upload();
      const gone = await upload();
      const used = async () =>
        Number(
          (
            await inSystem(app, (tx) =>
              tx('backup_repositories').where({ id: repository.id }).first('stored_bytes'),
            )
          ).stored_bytes,
        );
      expect(await used()).to.equal(8192);
      await send(server, 'DELETE', gone.place);
      expect(await used(), 'the trash counts').to.equal(8192);
      expect((await purgeTrash(parts(), { days: 14, signal })).removed).to.equal(0);
      await age(15);
      await inSystem(app, (tx) => holdTrash(tx, repository.id, true));
      expect((await purgeTrash(parts(), { days: 14, signal })).removed, 'held').to.equal(0);
      await inSystem(app, (tx) => holdTrash(tx, repository.id, false));
      expect((await purgeTrash(parts(), { days: 14, signal })).removed).to.equal(1);
      expect(await used()).to.equal(4096);
      expect((await rows()).map(({ name }) => name)).to.deep.equal([kept.name]);
      expect(await storage.has(repository.id, { type: 'data', name: kept.name })).to.equal(true);
      expect(await storage.has(repository.id, { type: 'data', name: gone.name })).to.equal(false);
      const asOf = new Date(Date.now() - 16 * 86_400_000);
      const refused = await issue(app, repository.id, 'as-of', { asOf }).catch(
        (error: Error) => error.message,
      );
      expect(refused).to.match(/is gone\. Choose a later time\.$/);
      await issue(app, repository.id, 'as-of', { asOf: new Date() });
    });

    it('is emptied for the others, if the objects of one repository cannot be removed', async () => {
      const broken = repository.id;
      const other = await buildRepository(app);
      const old = { type: 'data', size: 1, trashed_at: new Date(Date.now() - 30 * 86_400_000) };
      const names = Array.from({ length: 600 }, () => anObject(8).name);
      await inSystem(app, async (tx) => {
        await tx('backup_objects').insert(names.map((name) => ({ ...old, repository_id: broken, name })));
        const trashed = { ...old, trashed_at: new Date(Date.now() - 20 * 86_400_000) };
        await tx('backup_objects').insert({ ...trashed, repository_id: other.id, name: anObject(8).name });
      });
      const { remove } = storage;
      storage.remove = async (id, object) => {
        if (id === broken) throw new Error('EACCES: permission denied');
        return remove.call(storage, id, object);
      };
      try {
        expect((await purgeTrash(parts(), { days: 14, signal })).removed).to.equal(1);
      } finally {
        storage.remove = remove;
      }
      expect(await objectRows(app.server.database.pool, other.id)).to.deep.equal([]);
      await inSystem(app, (tx) =>
        tx('backup_objects')
          .where({ repository_id: broken })
          .update({ lost_at: tx.raw(`now() - interval '2 hours'`) }),
      );
      expect((await purgeTrash(parts(), { days: 14, signal })).removed, 'tried again later').to.equal(600);
    });

    it('removes the locks of ended jobs, and no others', async () => {
      const other = await issue(app, repository.id, 'device');
      const stays = await upload('locks');
      await upload('locks', other);
      await end(app, other);
      expect(await removeEndedLocks(parts())).to.equal(1);
      expect((await rows()).map(({ name }) => name)).to.deep.equal([stays.name]);
    });

    it('makes the table and the files agree, whichever of them is behind', async () => {
      const found = await upload();
      const lost = await upload('index');
      const unmoved = await upload();
      await inSystem(app, async (tx) => {
        await tx('backup_objects').where({ name: found.name }).delete();
        await tx('backup_objects').where({ name: unmoved.name }).update({ trashed_at: new Date() });
      });
      await storage.remove(repository.id, { type: 'index', name: lost.name, trashedAt: null });
      const differences = await reconcileAll(parts(), signal);
      expect(differences).to.include({ recorded: 1, lost: 1, found: 0, moved: place === 'folder' ? 1 : 0 });
      expect(await names(server)).to.deep.equal([found.name]);
      expect(await names(server, 'index')).to.deep.equal([]);
      expect((await send(server, 'GET', found.place)).body).to.deep.equal(found.content);
      expect(await reconcileAll(parts(), signal)).to.deep.equal({
        recorded: 0,
        lost: 0,
        found: 0,
        moved: 0,
        failed: 0,
      });
      // It comes back, by a new upload.
      expect((await send(device, 'POST', lost.place, lost.content)).status).to.equal(200);
      expect(await names(server, 'index')).to.deep.equal([lost.name]);
    });

    it('goes on with the other repositories if the objects of one cannot be listed', async () => {
      const broken = repository.id;
      const other = await buildRepository(app);
      const { name, content } = anObject();
      const credential = await issue(app, other.id, 'device');
      const sent = await request(app.url, other.id, credential, ['POST', `data/${name}`], { body: content });
      expect(sent.status).to.equal(200);
      await inSystem(app, (tx) => tx('backup_objects').where({ name }).delete());
      const { list } = storage;
      storage.list = (id, type) => {
        if (id === broken) throw new Error('EACCES: permission denied');
        return list.call(storage, id, type);
      };
      try {
        expect(await reconcileAll(parts(), signal)).to.include({ failed: 1, recorded: 1 });
      } finally {
        storage.list = list;
      }
    });

    if (place === 's3') {
      it('works with restic while every tenth request to the bucket fails', async function () {
        needsRestic(this);
        const source = path.join(app.dataDir, 'source');
        await rm(source, { recursive: true, force: true });
        await mkdir(source);
        for (let i = 0; i < 4; i++) await writeFile(path.join(source, `f${i}`), anObject(100_000).content);
        let calls = 0;
        s3!.onCall = () => (++calls % 10 === 0 ? { status: 503, code: 'SlowDown' } : undefined);
        await (await resticAs(app, repository.id, 'server')).ok('init');
        await end(app, device);
        const first = await resticAs(app, repository.id, 'device');
        await first.ok('backup', source);
        const target = path.join(app.dataDir, 'target');
        await (await resticAs(app, repository.id, 'reader')).ok('restore', 'latest', '--target', target);
        for (const name of await readdir(source)) {
          expect(await readFile(path.join(target, source, name))).to.deep.equal(
            await readFile(path.join(source, name)),
          );
        }
        await (await resticAs(app, repository.id, 'server')).ok('check', '--read-data');
        s3!.onCall = undefined;
        expect(calls).to.be.greaterThan(10);
        expect(await readdir(path.join(app.dataDir, 'backups', 'spool'))).to.deep.equal([]);
      });

      it('asks a bucket that stays away again, each time later, and not for ever', async () => {
        const at: number[] = [];
        s3!.onCall = () => {
          at.push(performance.now());
          return { status: 503, code: 'SlowDown' };
        };
        const objects = new S3Objects({ ...bucket, timing: { attempts: 4, retryMs: 20 } });
        const refused = await objects.has('some/where').catch((error: unknown) => error);
        s3!.onCall = undefined;
        expect(refused).to.be.instanceOf(S3Error);
        const [first = 0, second = 0, third = 0, ...more] = at.slice(1).map((time, n) => time - (at[n] ?? 0));
        expect(more).to.deep.equal([]);
        // Timers are never early by more than a millisecond.
        expect([first >= 19, second >= 39, third >= 79]).to.deep.equal([true, true, true]);
      });

      it('stores nothing that the bucket has damaged or refused', async () => {
        const { name, content } = anObject();
        s3!.onCall = () => ({ status: 403, code: 'AccessDenied' });
        const answer = await send(device, 'POST', `data/${name}`, content);
        s3!.onCall = undefined;
        expect(answer.status).to.equal(503);
        expect(String(answer.body)).to.not.include('AccessDenied');
        expect(await rows()).to.deep.equal([]);
      });
    } else {
      it('says that an object is missing, rather than sending another one', async () => {
        const { name, place: where } = await upload();
        const file = path.join(app.dataDir, 'backups', repository.id, 'data', name.slice(0, 2), name);
        await rename(file, `${file}.away`);
        expect((await send(device, 'GET', where)).status).to.equal(503);
      });
    }
  });
}
