import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'chai';
import { constantsDeclaredTooLate } from './start-order.ts';

const ROOT = path.join(import.meta.dirname, '../..');

describe('a file that runs when it is loaded', () => {
  let files: string[];
  let late: string[];
  // Reading all of them takes longer than a test may.
  before(() => {
    files = ['src', 'seeds', 'bench'].flatMap((folder) =>
      readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
        .filter((file) => /\.tsx?$/.test(file))
        .map((file) => path.posix.join(folder, ...file.split(path.sep))),
    );
    late = files.flatMap((file) =>
      constantsDeclaredTooLate(file, readFileSync(path.join(ROOT, file), 'utf8')).map(
        (name) => `${file}: ${name}`,
      ),
    );
  });

  it('declares its constants before', () => {
    expect(files.length).to.be.above(1000);
    expect(late, `\n${late.join('\n')}\n`).to.deep.equal([]);
  });

  it('is found by its order', () => {
    const lateIn = (text: string) => constantsDeclaredTooLate('a.ts', text);
    const run = 'function run() { print(1); }\n';
    const print = 'const print = (n: number) => console.log(n);\n';
    expect(lateIn(`try { run(); } finally {}\n${run}${print}`)).to.deep.equal(['print (3)']);
    expect(lateIn(`await run();\n${print}async ${run}`)).to.deep.equal(['print (2)']);
    expect(lateIn(`if (true) run();\nexport class print {}\n${run}`)).to.deep.equal(['print (2)']);
    expect(lateIn(`const first = run();\n${run}${print}`)).to.deep.equal(['print (3)']);
    expect(lateIn(`${print}${run}await run();`)).to.deep.equal([]);
    expect(lateIn(`${run}listen(() => run(), run);\n${print}`)).to.deep.equal([]);
    expect(lateIn(`await run();\nconst other = 1;\n${run}`)).to.deep.equal([]);
  });
});
