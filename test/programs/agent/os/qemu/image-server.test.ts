import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { findProgram } from '../../../../../src/agent/os/child-process.ts';
import { openImage } from '../../../../../src/agent/os/qemu/disk-images.ts';
import { openNbd } from '../../../../../src/agent/os/qemu/nbd-client.ts';

describe('agent: disks that another program serves', () => {
  let folder: string;
  const { signal } = new AbortController();

  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-image-server-'));
  });
  afterEach(async () => rm(folder, { recursive: true, force: true }));

  it('are read at any place, for every name of their file', async function () {
    const program = await findProgram(['qemu-nbd']);
    if (program === undefined) {
      if (process.env['CI'] === 'true') throw new Error('apt-get install qemu-utils');
      this.skip();
    }
    const file = path.join(folder, 'a, "b" {c}.raw');
    const content = Buffer.alloc(3 * 1024 * 1024);
    for (let at = 0; at < content.length; at += 1) content[at] = (at * 31) >> 7;
    await writeFile(file, content);
    const disk = await openImage(program, { file, format: 'raw' }, signal);
    try {
      expect(disk.sizeBytes).to.equal(content.length);
      expect((await disk.read(1000, 2_500_000)).equals(content.subarray(1000, 2_501_000))).to.equal(true);
      const end = await disk.read(content.length - 10, 100);
      expect(end.equals(content.subarray(-10))).to.equal(true);
    } finally {
      disk.close();
    }
    const broken = openImage(program, { file, format: 'qcow2' }, signal);
    expect(await broken.catch(String)).to.include('cannot be read');
  });

  it('are given up if the program speaks nonsense, says too much, or falls silent until the end', async () => {
    const greeting = Buffer.from('NBDMAGICIHAVEOPT\0\x03', 'latin1');
    const reply = Buffer.alloc(20);
    reply.writeBigUInt64BE(0x3e889045565a9n, 0);
    reply.writeUInt32BE(0xff_ff_ff_ff, 16);
    for (const [index, said] of [
      Buffer.from('HTTP/1.1 400 Bad Request\r\n'),
      Buffer.concat([greeting, reply]),
      greeting,
    ].entries()) {
      const socket = path.join(folder, `${index}.sock`);
      const server = await listen(socket, said);
      const ends = index === 2 ? AbortSignal.timeout(100) : signal;
      const opened = openNbd(socket, ends).then(
        () => 'opened',
        () => 'refused',
      );
      expect(await opened).to.equal('refused');
      server.close();
    }
  });
});

const listen = (socket: string, said: Buffer) =>
  new Promise<Server>((resolve) => {
    const server = createServer((client) => {
      client.on('error', () => {});
      client.write(said);
    });
    server.listen(socket, () => resolve(server));
  });
