import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { eventually } from '../support/eventually.ts';
import { type Program, runProgram } from '../support/program.ts';
import { needsRestic } from '../support/restic.ts';

/** The demo as a user starts it, with its backup of this machine. */
describe('the demo', function () {
  this.timeout(300_000);
  let dataDir: string;
  let demo: Program | undefined;

  before(async function () {
    needsRestic(this);
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-demo-'));
  });
  after(async () => {
    demo?.child.kill('SIGTERM');
    await demo?.ended;
    await rm(dataDir, { recursive: true, force: true });
  });

  const freePort = () =>
    new Promise<number>((resolve) => {
      const probe = createServer().listen(0, '127.0.0.1', () => {
        const address = probe.address();
        probe.close(() => resolve(typeof address === 'object' ? (address?.port ?? 0) : 0));
      });
    });

  it('is ready first, and then has a snapshot of this machine to browse', async () => {
    const port = await freePort();
    const { PATH, HOME } = process.env;
    demo = runProgram('src/cli/demo.ts', ['--devices', '2'], {
      env: { PATH, HOME, PORT: String(port), DATA_DIR: dataDir },
    });
    const { output, child } = demo;
    const said = await eventually(
      () => {
        if (child.exitCode !== null) throw new Error(`The demo ended: ${output()}`);
        return output();
      },
      (text) => /[✔✘] Backup of this machine/.test(text),
      240_000,
    );
    expect(said).to.match(/Muster is running[\s\S]+✔ Backup of this machine/);
    const [, password] = /admin@demo\.example\s+(\S+)/.exec(said) ?? [];
    const api = `http://127.0.0.1:${port}/api/v1`;
    const login = await fetch(`${api}/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email: 'admin@demo.example', password }),
    });
    const { tokens } = (await login.json()) as { tokens: { accessToken: string } };
    const get = async (place: string) => {
      const answer = await fetch(api + place, { headers: { authorization: `Bearer ${tokens.accessToken}` } });
      return (await answer.json()) as { data: { id: string; name: string }[] };
    };
    const [snapshot] = (await get('/backup/snapshots')).data;
    const folder = encodeURIComponent(path.join(dataDir, 'files-to-back-up'));
    const { data } = await get(`/backup/snapshots/${snapshot?.id ?? ''}/browse?path=${folder}`);
    expect(data.map(({ name }) => name)).to.include.members(['invoices', 'read-me.txt', 'reports']);
  });
});
