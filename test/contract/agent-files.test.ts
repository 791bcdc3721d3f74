import { expect } from 'chai';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { isOwnName } from '../../src/agent/core/remove-data.ts';

const ROOT = path.join(import.meta.dirname, '../..');

/** Names below other folders than the agent's own, and own names that stay when the machine leaves its server. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  'postmaster.pid': 'PostgreSQL writes it.',
  PG_VERSION: 'PostgreSQL writes it.',
  xtrabackup_checkpoints: 'The backup program of MariaDB writes it, below `spool`.',
  nbd: 'The folder of this socket is a temporary one of the system.',
  'boot.img': 'It belongs to a virtual machine, below `machines`.',
  work: 'It lies below the folder of one run of a script, which is removed whole.',
  'part-': 'It is the beginning of the name of a folder below `unpacked`.',
  'domain.xml': 'It is part of an export, below `backup/machines`.',
  current: 'It lies in the folder of the programs, which `install.sh` removes.',
  'recovery.json': 'It lies in the folder that the person who recovers a machine has named.',
  restored: 'Restored files belong to the machine.',
};

/** Names that are written directly below a variable for a folder of the agent, as `name (file)`. */
function namesWritten(): { name: string; file: string }[] {
  return ['src/agent', 'src/watchdog'].flatMap((below) =>
    readdirSync(path.join(ROOT, below), { recursive: true, encoding: 'utf8' })
      .map((file) => path.posix.join(below, ...file.split(path.sep)))
      .filter((file) => file.endsWith('.ts') && !file.startsWith('src/agent/simulator/'))
      .flatMap((file) => {
        const text = readFileSync(path.join(ROOT, file), 'utf8');
        const joined =
          /path\.join\((?:[\w#]+\.)*#?(?:dataDir|backupFolder|folder|upgradesIn\(dataDir\)), ('[^']+'|[A-Z_]+)/g;
        return [...text.matchAll(joined)].flatMap(([, word = '']) => {
          const name = word.startsWith("'")
            ? word.slice(1, -1)
            : new RegExp(`const ${word} = '([^']+)'`).exec(text)?.[1];
          return name === undefined ? [] : [{ name, file }];
        });
      }),
  );
}

describe('the files of the agent', () => {
  const written = namesWritten();

  it('are all removed when the machine leaves its server, or are exceptions with a reason', () => {
    const unknown = written.filter(({ name }) => !isOwnName(name) && EXCEPTIONS[name] === undefined);
    expect(unknown).to.deep.equal([]);
  });

  it('are found by this test, also those of constants, and every exception is one', () => {
    const names = written.map(({ name }) => name);
    expect(names).to.include.members([
      'credentials.json',
      'terminals.json',
      'samples.json',
      'spool',
      'trial.json',
    ]);
    expect(names).to.include.members(Object.keys(EXCEPTIONS));
  });
});
