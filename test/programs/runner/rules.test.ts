import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { FILE_TIMES_VARIABLE, filesToRepeat } from '../../support/file-times.ts';
import { RULES, type Rule, SLOWNESS_VARIABLE } from '../../support/runner/rules.ts';

const ROOT = path.join(import.meta.dirname, '../../..');

const LONG = `const until = performance.now() + 1_500;
  while (performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 5))`;
/** The body of a test that breaks a rule, by the rule. */
const BREAKING: [Rule, string][] = [
  ['process', `(await import('node:child_process')).execFileSync('true')`],
  [
    'process',
    `const { spawn } = await import('node:child_process'); await new Promise((r) => spawn('true').once('close', r))`,
  ],
  ['timer', `await new Promise((resolve) => setTimeout(resolve, 60))`],
  ['timer', `await (await import('node:timers/promises')).setTimeout(60)`],
  ['wait', `let calls = 0; await eventually(() => ++calls, (count) => count > 101)`],
  [
    'port',
    `const { createServer } = await import('node:net'); const server = createServer().listen(18765, '127.0.0.1');
     await new Promise((resolve) => server.once('listening', resolve)); server.close()`,
  ],
  ['duration', LONG],
];
const ALLOWED = [
  `const timer = setTimeout(() => {}, 60_000); clearTimeout(timer)`,
  `await new Promise((resolve) => setTimeout(resolve, 5))`,
  `await eventually(() => true, Boolean)`,
  `const { createServer } = await import('node:net'); const server = createServer().listen(0, '127.0.0.1');
   await new Promise((resolve) => server.once('listening', resolve)); server.close()`,
];

describe('the rules of the tiers', () => {
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-rules-'));
  });
  afterEach(async () => rm(folder, { recursive: true }));

  /** Runs one test in a file of that tier, and returns what Mocha says of it. */
  async function run(tier: string, body: string, settings: Record<string, string> = {}): Promise<string> {
    const file = path.join(folder, 'test', tier, 'probe.test.ts');
    await mkdir(path.dirname(file), { recursive: true });
    const eventually = path.join(ROOT, 'test/support/eventually.ts');
    const text = `import { eventually } from '${eventually}';
      describe('a probe', () => { it('runs', async () => { void eventually; ${body}; }); });`;
    await writeFile(file, text);
    const mocha = path.join(ROOT, 'node_modules/mocha/bin/mocha.js');
    // As if it ran alone. The limit is a tenth, so that a test of 1.5 s is over it however much of that a busy machine
    // takes for itself.
    const { [FILE_TIMES_VARIABLE]: _times, ...inherited } = process.env;
    const env = { ...inherited, [SLOWNESS_VARIABLE]: '0.1', ...settings };
    return new Promise((resolve) => {
      execFile(process.execPath, [mocha, file], { cwd: ROOT, env }, (_error, stdout) => resolve(stdout));
    });
  }

  for (const [rule, body] of BREAKING) {
    it(`fail a test that breaks “${RULES[rule]}” by ${body.slice(0, 40)}`, async () => {
      const output = await run('server', body);
      expect(output).to.contain('1 failing').and.to.contain(RULES[rule]);
    });
  }

  it('only note what is too long beside other files, for the run to repeat it alone', async () => {
    const times = path.join(folder, 'times');
    expect(await run('server', LONG, { [FILE_TIMES_VARIABLE]: times })).to.contain('1 passing');
    expect(filesToRepeat(times)).to.deep.equal([path.join(folder, 'test/server/probe.test.ts')]);
    expect(await run('server', LONG, { [FILE_TIMES_VARIABLE]: times, [SLOWNESS_VARIABLE]: '10' })).to.contain(
      '1 passing',
    );
    expect(await readFile(times, 'utf8')).to.contain('"isTooLong":false');
  });

  it('are not held against the test after one that broke them and failed', async () => {
    const breaking = `await new Promise((resolve) => setTimeout(resolve, 60)); throw new Error('another reason')`;
    const output = await run('server', `${breaking} }); it('comes next', async () => {`);
    expect(output).to.contain('1 passing').and.to.contain('1 failing').and.to.contain('another reason');
    expect(output).not.to.contain(RULES.timer);
  });

  it('let a test do what is quick and does not depend on the machine', async () => {
    expect(await run('unit', ALLOWED.join(';\n')))
      .to.contain('1 passing')
      .and.not.to.contain('failing');
  });

  it('are not for the tests of whole programs', async () => {
    const all = BREAKING.filter(([rule]) => rule !== 'duration')
      .map(([, body]) => `{ ${body} }`)
      .join(';\n');
    expect(await run('programs', all))
      .to.contain('1 passing')
      .and.not.to.contain('failing');
  });
});
