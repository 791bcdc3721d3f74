import { expect } from 'chai';
import { whyNotMounted } from '../../../../../src/agent/capabilities/machine-restores/snapshot-mounts.ts';

describe('a snapshot that cannot be mounted', () => {
  it('names the program that is missing, and nothing else that restic has said', () => {
    const missing = 'fusermount: exec: "fusermount": executable file not found in $PATH';
    expect(whyNotMounted(`unable to umount\n${missing}\n`)).to.equal(
      'fusermount is not installed on this device. Install the package fuse there.',
    );
    expect(whyNotMounted('Fatal: unable to open repository at rest:http://user:secret@host/')).to.equal(
      'The snapshot cannot be read from its repository.',
    );
  });
});
