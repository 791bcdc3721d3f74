import { execFile, execFileSync } from 'node:child_process';
import { appendFileSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';

const ROOT = path.join(import.meta.dirname, '../../..');

interface Planted {
  check: string;
  /** The part of the tree that the check is given; the whole takes some of them long. */
  parts: string[];
  file: string;
  text: string;
}

/** What imports nothing of the rest, so that it is sound by itself. */
const PLATFORM = ['package.json', 'tsconfig.json', '.oxlintrc.json', 'src/platform', 'src/clock.ts'];
const FAULTS: Planted[] = [
  {
    check: 'lint',
    parts: PLATFORM,
    file: 'src/platform/planted.ts',
    text: 'export function planted(): void {\n  Promise.resolve(1);\n}\n',
  },
  {
    check: 'types',
    parts: PLATFORM,
    file: 'src/platform/planted.ts',
    text: `export const planted: number = 'text';\n`,
  },
  {
    check: 'format',
    parts: [],
    file: 'src/platform/planted.ts',
    text: 'export const planted   =  {"a":1}\n',
  },
  {
    check: 'imports',
    parts: [],
    file: 'src/platform/planted.ts',
    text: `import '../features/index.ts';\n`,
  },
  {
    check: 'dead',
    parts: [],
    file: 'src/protocol/version.ts',
    text: 'export const plantedAndUsedByNobody = 1;\n',
  },
];

/** A check that finds nothing would be green for ever, so each is shown a fault of its kind in a copy of the tree. */
describe('each check of the gate', function () {
  this.timeout(300_000);
  let copy: string;

  beforeEach(() => {
    copy = mkdtempSync(path.join(tmpdir(), 'muster-planted-'));
  });
  afterEach(() => rmSync(copy, { recursive: true }));

  for (const { check, parts, file, text } of FAULTS) {
    it(`${check} finds a fault of its kind, and names the file`, async () => {
      const tree = execFileSync('git', ['archive', 'HEAD', ...parts], {
        cwd: ROOT,
        maxBuffer: 512 * 1024 * 1024,
      });
      execFileSync('tar', ['-x', '-C', copy], { input: tree });
      symlinkSync(path.join(ROOT, 'node_modules'), path.join(copy, 'node_modules'));
      appendFileSync(path.join(copy, file), text);
      const { code, output } = await run(`check:${check}`, copy);
      expect(code, output).to.not.equal(0);
      expect(output).to.contain(file);
    });
  }
});

function run(script: string, cwd: string): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile('npm', ['run', '-s', script], { cwd, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : 1, output: stdout + stderr }),
    );
  });
}
