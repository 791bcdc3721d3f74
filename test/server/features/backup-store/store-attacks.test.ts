import { expect } from 'chai';
import { readdir, readFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import path from 'node:path';
import {
  beginPrune,
  createRepository,
  endPrune,
} from '../../../../src/features/backup-store/repository.service.ts';
import { AppError } from '../../../../src/platform/errors.ts';
import { eventually } from '../../../support/eventually.ts';
import type { TestApp } from '../../../support/test-app.ts';
import {
  anObject,
  basic,
  buildRepository,
  createStoreApp,
  end,
  inSystem,
  issue,
  objectRows,
  type Repository,
  request,
  sha256,
  type StoreCall,
} from '../../../support/backup/store-support.ts';
import { testClock } from '../../../support/test-clock.ts';

/** What somebody with the credential of a device, or with none, tries on the backup store. */

describe('the backup store under attack', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let repository: Repository;
  type Credential = Awaited<ReturnType<typeof issue>>;
  let device: Credential;
  let server: Credential;

  before(async () => {
    app = await createStoreApp({
      backupStore: { idleMs: 400, reserveBytes: 0 },
      env: { BACKUP_STORE_ORGANIZATION_QUOTA_GIB: '1' },
    });
  });
  after(async () => app.close());
  beforeEach(async () => {
    repository = await buildRepository(app);
    device = await issue(app, repository.id, 'device');
    server = await issue(app, repository.id, 'server');
  });

  const send = (credential: Credential | undefined, method: string, place: string, call?: StoreCall) =>
    request(app.url, repository.id, credential, [method, place], call);
  const statusOf = async (credential: Credential, method: string, place: string, body?: Buffer) =>
    (await send(credential, method, place, { body })).status;
  const upload = async (credential: Credential, type: string, size = 100) => {
    const { name, content } = anObject(size);
    expect(await statusOf(credential, 'POST', `${type}/${name}`, content), `${type} is taken`).to.equal(200);
    return { name, content, place: `${type}/${name}` };
  };
  const rows = () => objectRows(app.server.database.pool, repository.id);
  const folder = (...parts: string[]) => path.join(app.dataDir, 'backups', repository.id, ...parts);
  const filesIn = async (place: string) => (await readdir(folder(place)).catch(() => [])).length;

  it('gives a device what it needs, and nothing that could destroy what was there', async () => {
    const config = anObject();
    const key = anObject();
    expect(await statusOf(server, 'POST', 'config', config.content)).to.equal(200);
    expect(await statusOf(server, 'POST', `keys/${key.name}`, key.content)).to.equal(200);
    const pack = await upload(device, 'data');
    const index = await upload(device, 'index');
    const snapshot = await upload(device, 'snapshots');
    for (const place of [pack.place, index.place, snapshot.place, `keys/${key.name}`, 'config']) {
      expect(await statusOf(device, 'GET', place), place).to.equal(200);
      expect(await statusOf(device, 'DELETE', place), `DELETE ${place}`).to.equal(403);
      expect(await statusOf(device, 'GET', place), place).to.equal(200);
    }
    const junk = anObject();
    expect(await statusOf(device, 'POST', `keys/${junk.name}`, junk.content)).to.equal(403);
    expect(await statusOf(device, 'POST', 'config', junk.content)).to.equal(403);
    expect(await statusOf(device, 'POST', '?create=true')).to.equal(403);
    expect(await statusOf(server, 'POST', 'config', junk.content), 'another configuration').to.equal(403);
    expect(await statusOf(server, 'POST', 'config', config.content), 'the same again').to.equal(200);
    expect((await send(device, 'GET', 'config')).body).to.deep.equal(config.content);
  });

  it('takes one snapshot for each credential, however often the same one is sent', async () => {
    const { content, place } = await upload(device, 'snapshots');
    expect(await statusOf(device, 'POST', place, content), 'the answer was lost').to.equal(200);
    const second = anObject();
    expect(await statusOf(device, 'POST', `snapshots/${second.name}`, second.content)).to.equal(403);
    const both = [anObject(), anObject()];
    const other = await issue(app, repository.id, 'device');
    const together = await Promise.all(
      both.map(({ name, content: body }) => statusOf(other, 'POST', `snapshots/${name}`, body)),
    );
    expect(together.toSorted((a, b) => a - b)).to.deep.equal([200, 403]);
  });

  it('lets a device remove its own locks only, and removes those of ended jobs from every list', async () => {
    const own = await upload(device, 'locks');
    const other = await issue(app, repository.id, 'device');
    const foreign = await upload(other, 'locks');
    expect(await statusOf(device, 'DELETE', foreign.place)).to.equal(403);
    expect(await statusOf(device, 'DELETE', own.place)).to.equal(200);
    expect(await statusOf(device, 'DELETE', own.place), 'the answer was lost').to.equal(200);
    const names = async (credential: Credential) =>
      JSON.parse(String((await send(credential, 'GET', 'locks/')).body));
    expect(await names(server)).to.deep.equal([foreign.name]);
    expect(await names(await issue(app, repository.id, 'reader')), 'of readers').to.deep.equal([]);
    await end(app, other);
    expect(await names(server)).to.deep.equal([]);
    for (let i = 0; i < 16; i++) await upload(device, 'locks');
    const more = anObject();
    expect(await statusOf(device, 'POST', `locks/${more.name}`, more.content), 'a flood').to.equal(403);
  });

  it('keeps the locks of readers to themselves', async () => {
    const reader = await issue(app, repository.id, 'reader');
    const lock = await upload(reader, 'locks');
    expect(JSON.parse(String((await send(reader, 'GET', 'locks/')).body))).to.deep.equal([lock.name]);
    expect((await send(reader, 'GET', lock.place)).body).to.deep.equal(lock.content);
    expect(JSON.parse(String((await send(server, 'GET', 'locks/')).body))).to.deep.equal([]);
    expect(await statusOf(reader, 'DELETE', lock.place)).to.equal(200);
    expect(await rows()).to.deep.equal([]);
    const { name, content } = anObject();
    for (const type of ['data', 'index', 'snapshots', 'keys']) {
      expect(await statusOf(reader, 'POST', `${type}/${name}`, content)).to.equal(403);
    }
  });

  it('opens nothing for the credential of another repository, a wrong secret, or none', async () => {
    const { place } = await upload(device, 'data');
    const foreign = await issue(app, (await buildRepository(app)).id, 'server');
    const secret = `${device.secret.slice(0, -7)}${device.secret.endsWith('0') ? '1' : '0'}000000`;
    for (const credential of [foreign, { ...device, secret }, { ...device, user: server.user }, undefined]) {
      for (const [method, where] of [
        ['GET', place],
        ['GET', 'data/'],
        ['DELETE', place],
        ['POST', place],
      ] as const) {
        const { status, headers } = await send(credential, method, where);
        expect(status).to.equal(401);
        expect(headers.get('www-authenticate')).to.match(/^Basic /);
      }
    }
    await end(app, device);
    expect(await statusOf(device, 'GET', place)).to.equal(401);
  });

  it('answers too many wrong credentials with 429, and right ones all the same', async () => {
    const statuses = await Promise.all(
      Array.from({ length: 80 }, async () => (await send(undefined, 'GET', 'data/')).status),
    );
    expect(statuses).to.include(429);
    expect(await statusOf(device, 'GET', 'data/')).to.equal(200);
  });

  it('has no path but those of the protocol', async () => {
    const { name } = await upload(device, 'data');
    const PLACES = [
      `data/../data/${name}`,
      `data/%2e%2e/data/${name}`,
      `data/..%2f..%2f${name}`,
      '../config',
      '%2e%2e/config',
      '/etc/passwd',
      '//etc/passwd',
      `data/${name}/`,
      `data/${name}%00`,
      `data/${name.toUpperCase()}`,
      'data/..',
      `tmp/${name}`,
      `trash/${name}`,
      `data/${'a'.repeat(5000)}`,
      `data/${name}?x=1`,
      'data',
      `data/${name.slice(1)}`,
      'config/',
      'locks/../config',
      `snapshots/${name}.tmp`,
      'C:\\config',
    ];
    for (const place of PLACES) {
      for (const method of ['GET', 'POST', 'DELETE']) {
        const status = await rawStatus(`${method} /backup-store/${repository.id}/${place} HTTP/1.1`);
        expect(status, `${method} ${place.slice(0, 80)}`).to.be.oneOf([400, 401, 404]);
      }
    }
    expect(await readdir(folder())).to.have.members(['data', 'tmp']);
  });

  /** Past the clients that tidy a path up. */
  const rawStatus = (line: string): Promise<number> =>
    rawAnswer(
      `${line}\r\nHost: x\r\nAuthorization: ${basic(server)}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
    );
  const rawAnswer = (text: string | Buffer, { cut = false } = {}): Promise<number> =>
    new Promise((resolve) => {
      const socket = connect(Number(new URL(app.url).port), '127.0.0.1', () => {
        socket.write(text, () => {
          if (cut) setTimeout(() => socket.destroy(), 50);
        });
      });
      let answer = '';
      socket.on('data', (piece) => (answer += String(piece)));
      socket.on('error', () => undefined);
      socket.on('close', () => resolve(Number(answer.split(' ')[1] ?? 0)));
    });

  it('refuses what is not what its name or its length says, and leaves nothing of it', async () => {
    const { name, content } = anObject(5000);
    const other = anObject(5000);
    for (const type of ['data', 'index', 'snapshots', 'locks']) {
      expect(await statusOf(device, 'POST', `${type}/${name}`, other.content), type).to.equal(400);
    }
    expect(await statusOf(device, 'POST', `data/${name}`, Buffer.alloc(0)), 'empty').to.equal(400);
    const head = (length: string) =>
      `POST /backup-store/${repository.id}/data/${name} HTTP/1.1\r\nHost: x\r\nAuthorization: ${basic(device)}\r\n${length}\r\nConnection: close\r\n\r\n`;
    expect(await rawAnswer(head('Transfer-Encoding: chunked')), 'no length').to.equal(400);
    expect(await rawAnswer(head(`Content-Length: ${300 << 20}`)), 'too large').to.equal(413);
    expect(await rawAnswer(head('Content-Length: -1'))).to.equal(400);
    expect(await rows()).to.deep.equal([]);
    for (const place of ['data', 'index', 'snapshots', 'locks', 'tmp']) {
      const found = await readdir(folder(place), { recursive: true }).catch(() => []);
      expect(
        found.filter((file) => file.length > 30),
        place,
      ).to.deep.equal([]);
    }
    expect(await statusOf(device, 'POST', `data/${name}`, content), 'and then the real one').to.equal(200);
  });

  it('serves others as before when readers leave in the middle of large objects', async () => {
    const { place, content } = await upload(server, 'data', 8 << 20);
    const head = Buffer.from(
      `GET /backup-store/${repository.id}/${place} HTTP/1.1\r\nHost: x\r\nAuthorization: ${basic(device)}\r\n\r\n`,
    );
    // Twice as many as a repository may have at once: each leaves with most of the object still to come.
    const leaving = Array.from({ length: 10 }, () => leaveAfterFirstBytes(head));
    expect(await Promise.all(leaving)).to.deep.equal(leaving.map(() => 200));
    const bodies = await Promise.all(
      Array.from({ length: 5 }, async () => (await send(device, 'GET', place)).body),
    );
    for (const body of bodies) expect(sha256(body)).to.equal(sha256(content));
    const from = content.length - 700_000;
    const { body } = await send(device, 'GET', place, { headers: { range: `bytes=${from}-` } });
    expect(body.equals(content.subarray(from))).to.equal(true);
  });

  /** Takes the beginning of the answer only. */
  const leaveAfterFirstBytes = (text: Buffer): Promise<number> =>
    new Promise((resolve, reject) => {
      const socket = connect(Number(new URL(app.url).port), '127.0.0.1', () => socket.write(text));
      socket.once('error', reject);
      socket.once('data', (piece) => {
        socket.destroy();
        resolve(Number(String(piece).split(' ')[1] ?? 0));
      });
    });

  it('survives uploads that break off at each stage, and clients that stop in the middle', async () => {
    const { name, content } = anObject(100_000);
    const head = Buffer.from(
      `POST /backup-store/${repository.id}/data/${name} HTTP/1.1\r\nHost: x\r\nAuthorization: ${basic(device)}\r\nContent-Length: ${content.length}\r\n\r\n`,
    );
    for (const sent of [0, 1, 50_000, 99_999]) {
      await rawAnswer(Buffer.concat([head, content.subarray(0, sent)]), { cut: true });
    }
    // Nothing comes, and the connection stays.
    await rawAnswer(Buffer.concat([head, content.subarray(0, 1000)]));
    await eventually(
      () => filesIn('tmp'),
      (count) => count === 0,
    );
    expect(await statusOf(device, 'GET', `data/${name}`)).to.equal(404);
    expect(await statusOf(device, 'POST', `data/${name}`, content)).to.equal(200);
    expect((await send(device, 'GET', `data/${name}`)).body).to.deep.equal(content);
  });

  it('is not held shut by 16 slow devices of two partners', async () => {
    const port = Number(new URL(app.url).port);
    const sockets: Socket[] = [];
    const slow = async () => {
      const { orgId, deviceId } = await buildRepository(app);
      for (let n = 0; n < 8; n += 1) {
        const { id } = await inSystem(app, (tx) => createRepository(tx, { orgId, deviceId, configId: null }));
        const credential = await issue(app, id, 'device');
        for (let upload = 0; upload < 5; upload += 1) {
          const { name, content } = anObject(10_000);
          const socket = connect(port, '127.0.0.1');
          sockets.push(socket.on('error', () => undefined));
          socket.write(
            `POST /backup-store/${id}/data/${name} HTTP/1.1\r\nHost: x\r\nAuthorization: ${basic(credential)}\r\nContent-Length: ${content.length}\r\n\r\n`,
          );
          socket.write(content.subarray(0, 1));
        }
      }
    };
    // They send a byte now and then, in a time that stands still: on a busy machine they would be given up.
    testClock.stop();
    const drip = setInterval(() => sockets.forEach((socket) => socket.write('x')), 50);
    try {
      await Promise.all([slow(), slow()]);
      const running = async () => {
        const metrics = await (await fetch(`${app.url}/metrics`)).text();
        return Number(/muster_backup_store_transfers\{state="running"\} (\d+)/.exec(metrics)?.[1] ?? 0);
      };
      await eventually(running, (count) => count >= 60);
      for (const type of ['data', 'index', 'data']) await upload(device, type, 5000);
      const downloads = await Promise.all(
        Array.from({ length: 5 }, async () => {
          const { place, content } = await upload(device, 'data', 5000);
          return (await send(device, 'GET', place)).body.equals(content);
        }),
      );
      expect(downloads).to.not.include(false);
    } finally {
      testClock.run();
      clearInterval(drip);
      for (const socket of sockets) socket.destroy();
    }
  });

  it('ends an upload with its credential', async () => {
    const short = await issue(app, repository.id, 'device', { expiresAt: new Date(Date.now() + 500) });
    const { name, content } = anObject(10_000);
    const status = new Promise<number>((resolve) => {
      const socket = connect(Number(new URL(app.url).port), '127.0.0.1');
      socket.write(
        `POST /backup-store/${repository.id}/data/${name} HTTP/1.1\r\nHost: x\r\nAuthorization: ${basic(short)}\r\nContent-Length: ${content.length}\r\nConnection: close\r\n\r\n`,
      );
      let sent = 0;
      const drip = setInterval(() => socket.write(content.subarray(sent, (sent += 100))), 50);
      let answer = '';
      socket.on('data', (piece) => (answer += String(piece)));
      socket.on('error', () => undefined);
      socket.on('close', () => {
        clearInterval(drip);
        resolve(Number(answer.split(' ')[1] ?? 0));
      });
    });
    expect(await status).to.not.equal(200);
    expect(await statusOf(device, 'GET', `data/${name}`)).to.equal(404);
  });

  it('refuses what does not fit into the quota before it reads it; the trash counts', async () => {
    await inSystem(app, (tx) =>
      tx('backup_repositories')
        .where({ id: repository.id })
        .update({ stored_bytes: 2 ** 30 - 10_000 }),
    );
    const { name, content } = anObject(50_000);
    expect(await statusOf(device, 'POST', `data/${name}`, content)).to.equal(507);
    const small = await upload(server, 'data', 1000);
    expect(await statusOf(server, 'DELETE', small.place)).to.equal(200);
    await upload(device, 'data', 1000);
    const third = anObject(1000);
    expect(await statusOf(device, 'POST', `data/${third.name}`, third.content), 'each takes 4 KiB').to.equal(
      507,
    );
    // A prune makes room, so what it writes beside packs is taken.
    await upload(server, 'locks', 1000);
    await upload(server, 'index', 1000);
    expect(await statusOf(server, 'POST', `data/${third.name}`, third.content)).to.equal(507);
    expect(await statusOf(device, 'POST', `index/${third.name}`, third.content)).to.equal(507);
  });

  it('keeps devices from writing while the server prunes, and prunes only when none can', async () => {
    const refusal = (error: unknown) => (error instanceof AppError ? error.code : error);
    const until = new Date(Date.now() + 60_000);
    const begin = () =>
      inSystem(app, (tx) => beginPrune(tx, repository.id, until)).then(() => 'begun', refusal);
    expect(await begin(), 'a device has a credential').to.equal('conflict');
    await end(app, device);
    expect(await begin()).to.equal('begun');
    expect(await begin(), 'twice').to.equal('conflict');
    expect(await issue(app, repository.id, 'device').catch(refusal)).to.equal('conflict');
    await upload(server, 'index');
    await inSystem(app, (tx) =>
      tx('backup_store_credentials').where({ id: device.id }).update({ ended_at: null }),
    );
    const { name, content } = anObject();
    expect(await statusOf(device, 'POST', `data/${name}`, content)).to.equal(503);
    await inSystem(app, (tx) => endPrune(tx, repository.id));
    expect(await statusOf(device, 'POST', `data/${name}`, content)).to.equal(200);
  });

  it('serves ranges and both forms of lists', async () => {
    const { name, content, place } = await upload(device, 'data', 1000);
    const range = (value: string) => send(device, 'GET', place, { headers: { range: value } });
    for (const [value, from, to] of [
      ['bytes=0-9', 0, 10],
      ['bytes=990-', 990, 1000],
      ['bytes=-5', 995, 1000],
      ['bytes=5-5000', 5, 1000],
    ] as const) {
      const { status, body, headers } = await range(value);
      expect(status).to.equal(206);
      expect(body, value).to.deep.equal(content.subarray(from, to));
      expect(headers.get('content-range')).to.equal(`bytes ${from}-${to - 1}/1000`);
    }
    expect((await range('bytes=1000-')).status).to.equal(416);
    expect((await send(device, 'HEAD', place)).headers.get('content-length')).to.equal('1000');
    const v2 = { headers: { accept: 'application/vnd.x.restic.rest.v2' } };
    const list = await send(device, 'GET', 'data/', v2);
    expect(list.headers.get('content-type')).to.equal('application/vnd.x.restic.rest.v2');
    expect(JSON.parse(String(list.body))).to.deep.equal([{ name, size: 1000 }]);
    expect(JSON.parse(String((await send(device, 'GET', 'data/')).body))).to.deep.equal([name]);
    expect(String((await send(device, 'GET', 'index/', v2)).body)).to.equal('[]');
  });

  it('records who wrote what, so that an index can be judged before a prune', async () => {
    const { name } = await upload(device, 'index');
    const [row] = await rows();
    expect(row).to.include({ type: 'index', name, credential_id: device.id, size: '100' });
    expect(row?.['job_id']).to.be.a('string');
    expect(sha256(await readFile(folder('index', name)))).to.equal(name);
  });
});
