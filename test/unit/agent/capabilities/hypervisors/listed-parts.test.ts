import { expect } from 'chai';
import { listedParts } from '../../../../../src/agent/capabilities/hypervisors/hypervisor.ts';
import { Machine } from '../../../../../src/protocol/index.ts';

describe('the disks and checkpoints of a machine, in what an agent sends', () => {
  const numbers = (count: number) => Array.from({ length: count }, (_, n) => n);

  it('are all of them if the server takes so many', () => {
    expect(listedParts(numbers(64), numbers(200))).to.deep.equal({
      disks: numbers(64),
      checkpoints: numbers(200),
    });
  });

  it('are the first of more, which the message says', () => {
    expect(listedParts(numbers(65), [])).to.deep.equal({ disks: numbers(64), checkpoints: [], isCut: true });
    expect(listedParts([], numbers(201))).to.deep.include({ checkpoints: numbers(200), isCut: true });
    expect(Machine.pick({ isCut: true }).parse({ isCut: true })).to.deep.equal({ isCut: true });
  });
});
