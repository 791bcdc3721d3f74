import { createHash, randomUUID } from 'node:crypto';
import { open } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';

/**
 * The baseline: what arrives is hashed and written to a file that survives a power cut, and nothing else. Its address
 * goes to standard output.
 */

const [folder = '.'] = process.argv.slice(2);

const server = createServer((request, response) => {
  void (async () => {
    const file = await open(path.join(folder, randomUUID()), 'wx');
    const hash = createHash('sha256');
    for await (const piece of request as AsyncIterable<Buffer>) {
      hash.update(piece);
      await file.write(piece);
    }
    await file.sync();
    await file.close();
    response.end(hash.digest('hex'));
  })();
});
server.listen(0, '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
