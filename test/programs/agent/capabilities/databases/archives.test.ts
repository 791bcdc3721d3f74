import { expect } from 'chai';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { AgentError } from '../../../../../src/agent/core/agent-error.ts';
import { checkedNames } from '../../../../../src/agent/capabilities/databases/mariadb.ts';
import {
  segmentName,
  writePosition,
} from '../../../../../src/agent/capabilities/databases/postgresql-backup.ts';
import { readBaseBackup } from '../../../../../src/agent/capabilities/databases/postgresql.ts';

/** What a backup may hold: a device could have forged it. */
describe('archives of backups of databases', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-archives-'));
    await mkdir(path.join(folder, 'a/b'), { recursive: true });
    await writeFile(path.join(folder, 'a/b/c'), 'content');
    await writeFile(path.join(folder, 'a/empty'), '');
  });
  afterEach(async () => rm(folder, { recursive: true }));

  const tar = (...args: string[]) =>
    execFileSync('tar', ['--format=ustar', '-C', folder, '-cPf', '-', ...args], { maxBuffer: 1e8 });
  async function* inPieces(bytes: Buffer, size: number) {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  }
  async function read(bytes: Buffer, size = 1000) {
    const found: string[] = [];
    for await (const { type, names, content } of readBaseBackup(inPieces(bytes, size))) {
      let text = '';
      if (names.at(-1) !== 'skipped') for await (const part of content) text += Buffer.from(part).toString();
      found.push(`${type} ${names.join('/')} ${text}`);
    }
    return found;
  }
  const refusal = async (bytes: Buffer): Promise<string> => {
    try {
      return `nothing: ${(await read(bytes)).join()}`;
    } catch (error) {
      expect(error).to.be.instanceOf(AgentError).with.property('code', 'BACKUP_DAMAGED');
      return (error as Error).message;
    }
  };

  it('are read whole, in portions of any size', async () => {
    const archive = tar('a');
    for (const size of [1, 511, 512, 513, 100_000]) {
      expect(await read(archive, size)).to.have.members([
        'directory a ',
        'directory a/b ',
        'file a/b/c content',
        'file a/empty ',
      ]);
    }
  });

  it('are refused if a name leads out of the folder, or is something else than a file', async () => {
    expect(await refusal(tar('--transform=s,^a/b/c$,../../etc/passwd,', 'a'))).to.match(/no name below/);
    expect(await refusal(tar('--transform=s,^a/b/c$,/etc/passwd,', 'a'))).to.match(/no name below/);
    expect(await refusal(tar('--transform=s,^a/b/c$,x//y,', 'a'))).to.match(/no name below/);
    await symlink('/etc', path.join(folder, 'a/link'));
    expect(await refusal(tar('a'))).to.match(/neither a file nor a folder/);
  });

  it('are refused if they end too early, or were changed', async () => {
    const archive = tar('a');
    expect(await refusal(archive.subarray(0, 1200))).to.match(/too early/);
    expect(await refusal(Buffer.alloc(0))).to.match(/too early/);
    const changed = Buffer.from(archive);
    changed[3] = 66;
    expect(await refusal(changed)).to.match(/header of the archive is damaged/);
  });

  it('of MariaDB are refused before a name that leads out is passed on', async () => {
    const part = (name: string, content: string) => {
      const head = Buffer.alloc(14);
      head.write('XBSTCK01', 0, 'latin1');
      head[9] = content === '' ? 69 : 80;
      head.writeUInt32LE(Buffer.byteLength(name), 10);
      const body = Buffer.alloc(20);
      body.writeBigUInt64LE(BigInt(Buffer.byteLength(content)), 0);
      return Buffer.concat([
        head,
        Buffer.from(name),
        ...(content === '' ? [] : [body, Buffer.from(content)]),
      ]);
    };
    const passed = async (stream: Buffer, size: number) => {
      const parts: Uint8Array[] = [];
      try {
        for await (const bytes of checkedNames(inPieces(stream, size))) parts.push(bytes);
      } catch (error) {
        return { bytes: Buffer.concat(parts), message: (error as Error).message };
      }
      return { bytes: Buffer.concat(parts), message: '' };
    };
    const good = Buffer.concat([part('./shop/written.ibd', 'content'), part('./shop/written.ibd', '')]);
    for (const size of [1, 7, 10_000]) {
      expect(await passed(good, size)).to.deep.equal({ bytes: good, message: '' });
      for (const name of ['../etc/passwd', '/etc/passwd', 'shop/../../x', './../x']) {
        const { bytes, message } = await passed(Buffer.concat([good, part(name, 'x')]), size);
        expect(message, name).to.match(/no name below/);
        expect(bytes).to.deep.equal(good);
      }
      expect((await passed(good.subarray(0, 40), size)).message).to.match(/too early/);
      expect((await passed(Buffer.from('something else altogether'), size)).message).to.match(/no stream/);
    }
  });

  it('have names of segments as PostgreSQL writes them', () => {
    expect(segmentName(1, 0x200000000n, 0x1000000n)).to.equal('000000010000000200000000');
    expect(segmentName(10, 0x1ff000000n, 0x1000000n)).to.equal('0000000A00000001000000FF');
    expect(segmentName(1, 0xb00000n, 0x100000n)).to.equal('00000001000000000000000B');
    expect(writePosition(0x1_0000_0000n - 1n)).to.equal('0/FFFFFFFF');
  });
});
