import { expect } from 'chai';
import { listedPaths, writtenPaths } from '../../../../src/features/backup/snapshot.model.ts';

describe('the paths of a snapshot', () => {
  const many = (count: number) => Array.from({ length: count }, (_, at) => `/srv/${at}`);

  it('are listed whole, as many as a configuration names', () => {
    expect(listedPaths(writtenPaths(many(200)))).to.deep.equal({ paths: many(200) });
  });

  it('are the first of more, which the list says', () => {
    expect(listedPaths(writtenPaths(many(1000)))).to.deep.equal({ paths: many(200), pathsAreCut: true });
  });

  it('end with an ellipsis if one is longer than a path can be', () => {
    const [path] = writtenPaths([`/${'x'.repeat(20_000)}`]);
    expect(path)
      .to.have.length(16_384)
      .and.match(/^\/x+…$/);
  });
});
