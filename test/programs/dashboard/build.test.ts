import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { ensureBuild, currentBuild, openDashboard } from '../../../src/server/dashboard.ts';
import { eventually } from '../../support/eventually.ts';
import { recordingLog } from '../../support/quiet-log.ts';

describe('the build of the dashboard', () => {
  let root: string;

  beforeEach(async () => {
    root = await mkdtemp(path.join(tmpdir(), 'muster-dashboard-'));
    for (const folder of ['src/dashboard/app', 'src/protocol', 'node_modules/vite']) {
      await mkdir(path.join(root, folder), { recursive: true });
    }
    await writeFile(path.join(root, 'package-lock.json'), '{}');
    await writeFile(path.join(root, 'src/dashboard/app/main.tsx'), 'one');
    await writeFile(path.join(root, 'src/protocol/version.ts'), '1');
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  const page = (text: string) => (folder: string) => writeFile(path.join(folder, 'index.html'), text);
  const builds = () => readdir(path.join(root, 'dist/dashboard'));
  const textOf = (folder: string) => readFile(path.join(folder, 'index.html'), 'utf8');
  const change = (file: string, text: string) => writeFile(path.join(root, file), text);
  /** Another program that builds: it waits for a file, and writes the page, or fails. */
  async function builder(script: string): Promise<string[]> {
    const file = path.join(root, 'builder.mjs');
    await writeFile(file, `import fs from 'node:fs'; ${script}`);
    return [file];
  }
  const opened = (command: string[]) => {
    const { log, lines } = recordingLog();
    return { ...openDashboard({ log, root, command }), lines };
  };

  it('is made once for each state of the sources, and replaces the one before', async () => {
    const first = await ensureBuild(root, page('first'));
    expect(await ensureBuild(root, () => Promise.reject(new Error('not again')))).to.equal(first);
    const sources = [
      'src/dashboard/app/main.tsx',
      'src/protocol/version.ts',
      'package-lock.json',
      'src/dashboard/new.css',
    ];
    for (const file of sources) {
      await change(file, `changed ${file}`);
      expect(await currentBuild(root), file).to.equal(undefined);
      expect(await textOf(await ensureBuild(root, page(file)))).to.equal(file);
      expect(await builds()).to.have.length(1);
    }
  });

  it('by two processes at once leaves one whole build, and nothing of the other', async () => {
    let begun = 0;
    const slow = async (folder: string) => {
      begun++;
      await eventually(
        () => begun,
        (count) => count === 2,
        20_000,
      );
      await page('whole')(folder);
    };
    const [one, other] = await Promise.all([ensureBuild(root, slow), ensureBuild(root, slow)]);
    expect(one).to.equal(other);
    expect(await textOf(one)).to.equal('whole');
    expect(await builds()).to.have.length(1);
  });

  it('of sources that change meanwhile is made again, and what fails leaves nothing', async () => {
    let round = 0;
    const built = await ensureBuild(root, async (folder) => {
      if (++round === 1) await change('src/dashboard/app/main.tsx', 'changed while it is built');
      await page(`round ${round}`)(folder);
    });
    expect(await textOf(built)).to.equal('round 2');
    await change('src/dashboard/app/main.tsx', 'broken');
    const failure = await ensureBuild(root, () => Promise.reject(new Error('no'))).catch(
      (error: Error) => error.message,
    );
    expect(failure).to.equal('no');
    expect(await builds()).to.deep.equal([path.basename(built)]);
  });

  it('that was abandoned is removed after a while, and one that may still go on is kept', async () => {
    const [young, old] = ['.young', '.old'].map((name) => path.join(root, 'dist/dashboard', name));
    for (const folder of [young!, old!]) await mkdir(folder, { recursive: true });
    await utimes(old!, new Date(0), new Date(0));
    await ensureBuild(root, page('page'));
    expect([existsSync(young!), existsSync(old!)]).to.deep.equal([true, false]);
  });

  it('can be read by other users than the one that built it', async () => {
    const folder = await ensureBuild(root, page('page'));
    // As `stat` says of it: a folder that `mkdtemp` makes would be closed to all others.
    const { mode } = await stat(folder);
    expect(mode & 0o055).to.equal(0o055);
  });

  it('is made by a server that starts, which says so until it is there', async () => {
    const folder = `${root}/dist/dashboard`;
    // The name of the build is that of the sources: the real one makes the folder by itself.
    await ensureBuild(root, page('built'));
    const [name = ''] = await builds();
    await rm(folder, { recursive: true });
    const command = await builder(`
      while (!fs.existsSync('${root}/go')) await new Promise((resolve) => setTimeout(resolve, 20));
      fs.mkdirSync('${folder}/${name}', { recursive: true });
      fs.writeFileSync('${folder}/${name}/index.html', 'built');`);
    const dashboard = opened(command);
    expect(await dashboard.current()).to.have.nested.property('notice.title', 'The dashboard is being built');
    await change('go', '');
    await dashboard.settled;
    const state = await dashboard.current();
    expect('files' in state && state.files.get('/index.html')?.plain.toString()).to.equal('built');
    expect(dashboard.lines.map(({ event }) => event)).to.include('dashboard.built');

    const again = opened(await builder('process.exit(1)'));
    await again.settled;
    expect(await again.current(), 'without building').to.have.property('files');
  });

  it('that fails is logged with its first lines, and the page names the command that shows why', async () => {
    const dashboard = opened(
      await builder(`for (let at = 1; at <= 50; at++) console.error('line', at); process.exitCode = 1;`),
    );
    await dashboard.settled;
    const state = await dashboard.current();
    expect(state).to.have.nested.property('notice.title', 'The dashboard could not be built');
    expect(state).to.have.nested.property('notice.command', 'npm run build:dashboard');
    const logged = dashboard.lines.find(({ event }) => event === 'dashboard.build_failed');
    expect(logged?.['output']).to.have.length(20).and.include('line 1');
  });

  it('ends with the server that began it', async () => {
    const dashboard = opened(
      await builder(`fs.writeFileSync('${root}/pid', String(process.pid)); setInterval(() => {}, 1000);`),
    );
    const pid = await eventually(
      () => readFile(path.join(root, 'pid'), 'utf8').catch(() => ''),
      (text) => text !== '',
      20_000,
    );
    await dashboard.stop();
    const isAlive = () => {
      try {
        return process.kill(Number(pid), 0);
      } catch {
        return false;
      }
    };
    await eventually(isAlive, (alive) => !alive, 20_000);
    expect(dashboard.lines.map(({ event }) => event)).to.not.include('dashboard.build_failed');
  });

  it('is served as it is if there are no sources or no tools, and otherwise the page says what to run', async () => {
    await ensureBuild(root, page('from elsewhere'));
    await rm(path.join(root, 'node_modules'), { recursive: true });
    await change('src/dashboard/app/main.tsx', 'newer');
    const served = opened(await builder('process.exit(1)'));
    await served.settled;
    expect(await served.current()).to.have.property('files');
    await rm(path.join(root, 'dist'), { recursive: true });
    const absent = opened(await builder('process.exit(1)'));
    await absent.settled;
    expect(await absent.current()).to.have.nested.property('notice.title', 'The dashboard is not built');
  });
});
