import { expect } from 'chai';
import fc from 'fast-check';
import { FairSlots, type SlotHolder, Pace } from '../../../src/platform/fair-slots.ts';
import { AppError } from '../../../src/platform/errors.ts';
import { clock } from '../../../src/clock.ts';
import { useTestClock } from '../../support/use-test-clock.ts';

const settle = () => new Promise((resolve) => setImmediate(resolve));
const device = (partner: string, organization: string, name: string): SlotHolder => ({
  levels: [`partner ${partner}`, `organization ${organization}`],
  leaf: { key: `device ${organization} ${name}`, max: 5, waitingMax: 10 },
});

const ofPartner = (partner: string, name: string): SlotHolder => ({
  ...device(partner, partner, name),
  levels: [`partner ${partner}`],
});

/** Work that ends when the test says so, or when its slot is taken over. */
function ground(all: number, leastRate = 1000) {
  const slots = new FairSlots({
    all,
    leastRate,
    waitMs: 90_000,
    waitingMax: { all: 1000, widest: 500 },
    refusal: () => new AppError('rate_limited', 'Full.'),
  });
  const begin = (holder: SlotHolder, bytesPerSecond = 0, signal?: AbortSignal) => {
    const state = { has: false, outcome: '' };
    let end = () => {};
    const over = new Promise<void>((resolve) => (end = resolve));
    void slots
      .run(
        holder,
        ({ mayBeTaken }) => {
          state.has = true;
          const pace = new Pace();
          pace.waits(clock.monotonic());
          const timer = clock.setInterval(() => {
            pace.moved(clock.monotonic(), 5 * bytesPerSecond);
            pace.waits(clock.monotonic());
          }, 5000);
          mayBeTaken(pace, () => {
            state.outcome = 'taken';
            clock.clear(timer);
            end();
          });
          return over;
        },
        signal === undefined ? {} : { signal },
      )
      .then(
        () => (state.outcome ||= 'done'),
        () => (state.outcome = 'refused'),
      );
    return { state, end };
  };
  return { slots, begin };
}
const having = (works: { state: { has: boolean; outcome: string } }[]) =>
  works.filter(({ state }) => state.has && state.outcome === '').length;

describe('slots that are shared out', () => {
  const testClock = useTestClock({ isRunning: false });

  it('leave room for newcomers on each level, however many others ask for', async () => {
    const { begin } = ground(160);
    const attack = ['A', 'B'].flatMap((partner) =>
      Array.from({ length: 8 * 5 }, (_, n) => begin(device(partner, partner, `${partner}${n % 8}`))),
    );
    await settle();
    expect(having(attack)).to.be.below(160);
    const third = Array.from({ length: 5 }, () => begin(device('C', 'C', 'C1')));
    const sixth = begin(device('C', 'C', 'C1'));
    const sibling = begin(device('A', 'A-2', 'other'));
    await settle();
    expect(having(third)).to.equal(5);
    expect(sixth.state.has, 'a device has five').to.equal(false);
    expect(sibling.state.has, 'another organization of a busy partner').to.equal(true);
  });

  it('never exceed their number, and are all given back', async () => {
    const holder = fc.tuple(fc.nat(3), fc.nat(2), fc.nat(2));
    const step = fc.oneof(holder, fc.nat(40));
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 60 }),
        fc.integer({ min: 1, max: 12 }),
        async (steps, all) => {
          const { slots, begin } = ground(all);
          const works: ReturnType<typeof begin>[] = [];
          for (const each of steps) {
            if (typeof each === 'number') works[each]?.end();
            else {
              const [partner, organization, name] = each;
              const org = `${partner}-${organization}`;
              works.push(begin(device(String(partner), org, `${org}-${name}`)));
            }
            await settle();
            expect(slots.state.running).to.be.at.most(all);
          }
          for (const work of works) work.end();
          await settle();
          expect(slots.state).to.deep.equal({ running: 0, waiting: 0, refused: 0 });
        },
      ),
      { numRuns: 40 },
    );
  });

  it('go to those who have the fewest when one becomes free', async () => {
    const { begin } = ground(4);
    const first = [begin(device('A', 'A', '1')), begin(device('A', 'A', '2'))];
    const second = begin(device('B', 'B', '1'));
    const last = begin(device('C', 'C', '1'));
    const waits = [begin(device('A', 'A', '3')), begin(device('D', 'D', '1'))];
    await settle();
    expect(having([...first, second, last])).to.equal(3);
    first[0]?.end();
    await settle();
    expect(waits.map(({ state }) => state.has)).to.deep.equal([false, true]);
  });

  it('are taken over after a minute from callers with more of them, the slowest first', async () => {
    const { begin } = ground(8);
    const partners = ['A', 'B', 'C', 'D'].flatMap((partner) =>
      Array.from({ length: 4 }, (_, n) => begin(ofPartner(partner, `${partner}${n}`), 10_000 - 1000 * n)),
    );
    await settle();
    const had = partners.filter(({ state }) => state.has);
    expect(had).to.have.length(8);
    const late = begin(ofPartner('E', '1'), 10_000);
    await testClock.advance(59_000);
    await settle();
    expect(late.state.has, 'within the minute').to.equal(false);
    await testClock.advance(2000);
    await settle();
    expect(late.state.has).to.equal(true);
    const taken = partners.flatMap(({ state }, n) => (state.outcome === 'taken' ? [n] : []));
    // The slowest of the partner that had most.
    expect(taken).to.deep.equal([3]);
  });

  it('stay with a slow line, unless a person with fewer waits', async () => {
    const { begin } = ground(2);
    const slow = begin(ofPartner('A', '1'), 8);
    const sameOffice = begin(ofPartner('A', '2'));
    await settle();
    await testClock.advance(80_000);
    await settle();
    expect([slow.state.outcome, sameOffice.state.has]).to.deep.equal(['', false]);
    const [quick, late] = [begin(ofPartner('B', '1'), 5000), begin(ofPartner('C', '1'), 5000)];
    await settle();
    expect([quick.state.has, late.state.has]).to.deep.equal([true, false]);
    await testClock.advance(2000);
    await settle();
    expect([slow.state.outcome, late.state.has]).to.deep.equal(['taken', true]);
    const again = begin(ofPartner('A', '3'));
    await testClock.advance(70_000);
    await settle();
    expect([quick.state.outcome, again.state.has], 'nobody has two more').to.deep.equal(['', false]);
  });

  it('are refused after the wait, at once if too many wait, and to those who have left', async () => {
    const { slots, begin } = ground(1);
    begin(device('A', 'A', '1'), 10_000);
    const left = new AbortController();
    const gone = begin(device('B', 'B', '1'), 0, left.signal);
    const waits = Array.from({ length: 11 }, () => begin(device('A', 'A', '1')));
    await settle();
    expect(waits.map(({ state }) => state.outcome).filter((outcome) => outcome === 'refused')).to.have.length(
      1,
    );
    left.abort();
    await settle();
    expect(gone.state.outcome).to.equal('refused');
    await testClock.advance(90_000);
    await settle();
    expect(waits.every(({ state }) => state.outcome === 'refused')).to.equal(true);
    expect(slots.state.waiting).to.equal(0);
  });
});

describe('a pace', () => {
  it('is that of the last minute, by the time in which the client was waited for', () => {
    const pace = new Pace();
    pace.waits(0);
    expect(pace.bytesPerSecond(9000)).to.equal(Infinity);
    expect(pace.bytesPerSecond(30_000)).to.equal(0);
    pace.moved(30_000, 300_000);
    expect(pace.bytesPerSecond(30_000)).to.equal(10_000);
    // The disk takes its time.
    pace.waits(100_000);
    expect(pace.bytesPerSecond(105_000), 'that is long ago').to.equal(Infinity);
    pace.moved(120_000, 20_000);
    pace.waits(120_000);
    expect(pace.bytesPerSecond(140_000)).to.equal(500);
  });
});
