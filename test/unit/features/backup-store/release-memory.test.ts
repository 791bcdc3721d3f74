import { expect } from 'chai';
import { releaseMemory } from '../../../../src/features/backup-store/storage.ts';

const LARGE = 1 << 20;

describe('releasing the memory of a buffer', () => {
  it('frees it at once, without a collection', () => {
    const buffers = Array.from({ length: 50 }, () => Buffer.allocUnsafeSlow(LARGE));
    const held = process.memoryUsage().arrayBuffers;
    for (const buffer of buffers) releaseMemory(buffer);
    expect(held - process.memoryUsage().arrayBuffers).to.be.at.least(50 * LARGE);
    expect(buffers.map(({ length }) => length)).to.deep.equal(buffers.map(() => 0));
  });

  it('leaves memory that other buffers share', () => {
    const whole = Buffer.alloc(LARGE, 'x');
    releaseMemory(whole.subarray(0, LARGE / 2));
    releaseMemory(whole.subarray(1));
    const pooled = Buffer.from('of the pool of Node');
    releaseMemory(pooled);
    const shared = new Uint8Array(new SharedArrayBuffer(LARGE));
    releaseMemory(shared);
    expect([whole.length, pooled.toString(), shared.length]).to.deep.equal([
      LARGE,
      'of the pool of Node',
      LARGE,
    ]);
  });
});
