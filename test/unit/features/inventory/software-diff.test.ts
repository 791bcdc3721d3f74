import { expect } from 'chai';
import fc from 'fast-check';
import { type Installed, softwareDiff } from '../../../../src/features/inventory/software-diff.ts';

/** Few names and versions, so that lists overlap, and some entries come twice. */
const entry: fc.Arbitrary<Installed> = fc.record({
  name: fc.constantFrom('a', 'b', 'A', 'c d', 'ü'),
  version: fc.constantFrom('', '1', '2', '10'),
  publisher: fc.constantFrom(null, 'x', 'y'),
  installedAt: fc.constantFrom(null, 0, 5),
  source: fc.constantFrom(null, 'dpkg', 'snap'),
});
const list = fc.array(entry, { maxLength: 25 });

/** What is stored of a list, worked out another way: by looking through all of it for each entry. */
function stored(entries: readonly Installed[]): Installed[] {
  const isSame = (a: Installed, b: Installed) => a.name === b.name && a.version === b.version;
  return entries
    .filter((one, place) => entries.findIndex((other) => isSame(one, other)) === place)
    .map(({ name, version }) => {
      const alike = entries.filter((other) => isSame(other, { name, version } as Installed));
      return {
        name,
        version,
        publisher: alike.map(({ publisher }) => publisher).find((value) => value !== null) ?? null,
        installedAt: alike.map(({ installedAt }) => installedAt).find((value) => value !== null) ?? null,
        source: alike.map(({ source }) => source).find((value) => value !== null) ?? null,
      };
    });
}

const sorted = (entries: readonly Installed[]) =>
  entries
    .map(({ name, version, publisher, installedAt }) =>
      JSON.stringify([name, version, publisher, installedAt]),
    )
    .sort();

describe('the difference of two lists of software', () => {
  it('leads from the one to the other', () => {
    fc.assert(
      fc.property(list, list, (first, second) => {
        const known = stored(first);
        const { added, removed, corrected } = softwareDiff(known, second);
        const kept = known
          .filter((one) => !removed.includes(one))
          .map((one) => corrected.find((correction) => correction.known === one)?.now ?? one);
        expect(sorted([...kept, ...added])).to.deep.equal(sorted(stored(second)));
      }),
    );
  });

  it('is nothing if the lists say the same, in whatever order and however often', () => {
    fc.assert(
      fc.property(list, (entries) => {
        const again = [...entries, ...entries.slice(0, 3)];
        const { added, removed, corrected, changes } = softwareDiff(stored(entries).reverse(), again);
        expect([added, removed, corrected, changes]).to.deep.equal([[], [], [], []]);
      }),
    );
  });

  it('touches no more than it must: what is added was not there, what is corrected was another', () => {
    fc.assert(
      fc.property(list, list, (first, second) => {
        const known = stored(first);
        const { added, removed, corrected } = softwareDiff(known, second);
        const keys = new Set(known.map(({ name, version }) => JSON.stringify([name, version])));
        for (const { name, version } of added) expect(keys).not.to.include(JSON.stringify([name, version]));
        const told = new Set(second.map(({ name, version }) => JSON.stringify([name, version])));
        for (const { name, version } of removed) expect(told).not.to.include(JSON.stringify([name, version]));
        for (const { known: before, now } of corrected) {
          expect([before.publisher, before.installedAt, before.source]).not.to.deep.equal([
            now.publisher,
            now.installedAt,
            now.source,
          ]);
        }
      }),
    );
  });

  it('tells people of each version that came and went once, and of no other', () => {
    fc.assert(
      fc.property(list, list, (first, second) => {
        const { added, removed, changes } = softwareDiff(stored(first), second);
        const versions = (entries: readonly Installed[]) =>
          entries.map(({ name, version }) => `${name}=${version}`).sort();
        const come = changes.filter(({ change }) => change !== 'removed');
        const gone = changes.filter(({ change }) => change !== 'installed');
        expect(come.map(({ name, version }) => `${name}=${version}`).sort()).to.deep.equal(versions(added));
        expect(gone.map(({ name, previousVersion }) => `${name}=${previousVersion}`).sort()).to.deep.equal(
          versions(removed),
        );
        // An update is told as one wherever there is something to pair.
        for (const name of new Set(changes.map((one) => one.name))) {
          const kinds = new Set(changes.filter((one) => one.name === name).map(({ change }) => change));
          expect(kinds.has('installed') && kinds.has('removed'), name).to.equal(false);
        }
      }),
    );
  });
});
