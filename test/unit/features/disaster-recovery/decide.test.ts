import { expect } from 'chai';
import fc from 'fast-check';
import {
  type ActionNow,
  type Decision,
  decide,
  type ExecutionNow,
  groupState,
} from '../../../../src/features/disaster-recovery/decide.ts';
import { brokenDependency } from '../../../../src/features/disaster-recovery/group.service.ts';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type Action = Mutable<ActionNow>;

/** An execution that is worked off by hand: decisions are applied, and what runs ends as the test says. */
class World {
  readonly now: ExecutionNow;
  readonly #actions = new Map<string, Action>();
  readonly started: string[] = [];
  readonly cancelled: string[] = [];
  isAborting = false;
  end: Decision['end'];

  constructor(execution: ExecutionNow) {
    this.now = execution;
    for (const action of this.all()) this.#actions.set(action.id, action);
  }

  all(): Action[] {
    return this.steps().flatMap(({ actions }) => actions as Action[]);
  }
  steps() {
    return this.now.groups.flatMap(({ steps }) => steps as Mutable<(typeof steps)[number]>[]);
  }
  action(id: string): Action {
    const found = this.#actions.get(id);
    if (found === undefined) throw new Error(`no action ${id}`);
    return found;
  }
  running(): Action[] {
    return this.all().filter(({ state }) => state === 'running');
  }

  /** Rounds until nothing moves any more. */
  settle(): void {
    for (let rounds = 0; this.end === undefined; rounds++) {
      expect(rounds, 'the rounds come to an end').to.be.lessThan(200);
      const decision = decide({ ...this.now, isAborting: this.isAborting });
      expect(decide({ ...this.now, isAborting: this.isAborting })).to.deep.equal(decision);
      if (!this.apply(decision)) return;
    }
  }

  apply(decision: Decision): boolean {
    for (const id of decision.skip) {
      expect(this.action(id).state, 'only what waits is skipped').to.equal('waiting');
      this.action(id).state = 'skipped';
    }
    for (const id of decision.cancel) {
      this.action(id).isCancelRequested = true;
      this.cancelled.push(id);
    }
    for (const id of decision.giveUp) this.action(id).state = 'failed';
    for (const id of decision.start) {
      expect(this.action(id).state, 'only what waits is started').to.equal('waiting');
      expect(this.started, 'nothing is started twice').not.to.include(id);
      this.action(id).state = 'running';
      this.started.push(id);
    }
    for (const { id, state } of decision.steps) {
      const step = this.steps().find((each) => each.id === id);
      if (step !== undefined) step.state = state;
    }
    this.end = decision.end;
    const { start, cancel, giveUp, skip, steps } = decision;
    return [start, cancel, giveUp, skip, steps].some((list) => list.length > 0);
  }
}

const SHAPES = ['files', 'vm', 'instant'] as const;

interface Shape {
  groups: { sequence: number; dependsOn: number; steps: { restoreType: 0 | 1 | 2; checks: number }[] }[];
  type: ExecutionNow['type'];
}

const step = fc.record({ restoreType: fc.constantFrom(0, 1, 2), checks: fc.nat(2) });
const shape: fc.Arbitrary<Shape> = fc.record({
  type: fc.constantFrom('rehearsal', 'failover', 'failback'),
  groups: fc.array(
    fc.record({
      sequence: fc.nat(3),
      dependsOn: fc.integer({ min: -1, max: 4 }),
      steps: fc.array(step, { minLength: 1, maxLength: 3 }),
    }),
    { minLength: 1, maxLength: 5 },
  ),
}) as fc.Arbitrary<Shape>;

/** A plan that could be stored: dependencies that a plan would be refused for are left out. */
function build({ groups, type }: Shape): World {
  const ordered = groups.map(({ sequence, dependsOn }, index) => ({
    id: `g${index}`,
    sequence,
    dependsOnGroupId: groups[dependsOn] === undefined ? null : `g${dependsOn}`,
  }));
  for (const group of ordered) {
    if (brokenDependency(ordered, group) !== undefined) group.dependsOnGroupId = null;
  }
  const make = (id: string, kind: ActionNow['kind'], undoes: string | null = null): ActionNow => ({
    id,
    kind,
    undoes,
    phase: kind === 'discard' ? 'cleanup' : 'main',
    state: 'waiting',
    isCancelRequested: false,
    isLost: false,
  });
  return new World({
    type,
    isAborting: false,
    groups: ordered.map((group, at) => ({
      ...group,
      steps: (groups[at]?.steps ?? []).map(({ restoreType, checks }, index) => {
        const id = `${group.id}s${index}`;
        const needsDiscard = type === 'rehearsal' || (type === 'failover' && restoreType !== 0);
        return {
          id,
          state: 'waiting' as const,
          restoreType: SHAPES[restoreType],
          actions: [
            make(`${id}r`, 'restore'),
            ...Array.from({ length: checks }, (_, n) => make(`${id}c${n}`, 'check')),
            ...(needsDiscard ? [make(`${id}d`, 'discard', `${id}r`)] : []),
          ],
        };
      }),
    })),
  });
}

const event = fc.record({
  at: fc.nat(30),
  outcome: fc.constantFrom('succeeded', 'succeeded', 'succeeded', 'failed', 'lost', 'abort'),
});

describe('the decisions of an execution of a recovery plan', () => {
  it('end every execution, in order, and take everything down, whatever happens', () => {
    fc.assert(
      fc.property(shape, fc.array(event, { maxLength: 30 }), (given, events) => {
        const world = build(given);
        const statusOf = (id: string) => {
          const group = world.now.groups.find((each) => each.id === id);
          return groupState(group?.steps.map(({ state }) => state) ?? []);
        };
        const seen = new Set<string>();
        const assertOrder = () => {
          for (const group of world.now.groups) {
            for (const { actions } of group.steps) {
              for (const { id, phase } of actions) {
                if (phase === 'cleanup' || seen.has(id) || !world.started.includes(id)) continue;
                seen.add(id);
                expect(world.isAborting, `${id} is not begun after the abort`).to.equal(false);
                for (const before of world.now.groups) {
                  const isBefore = before.sequence < group.sequence || before.id === group.dependsOnGroupId;
                  if (isBefore) {
                    expect(statusOf(before.id), `${id} waits for ${before.id}`).to.equal('completed');
                  }
                }
              }
            }
          }
        };
        let next = 0;
        world.settle();
        assertOrder();
        for (let turn = 0; world.end === undefined; turn++) {
          expect(turn, 'it ends').to.be.lessThan(300);
          const { at, outcome } = events[next++] ?? { at: 0, outcome: 'succeeded' };
          const running = world.running();
          const one = running[at % Math.max(running.length, 1)];
          expect(one, 'something runs while it has not ended').not.to.equal(undefined);
          if (one === undefined) return;
          if (outcome === 'abort') world.isAborting = true;
          else if (outcome === 'lost') one.isLost = true;
          else if (one.isCancelRequested && outcome === 'failed') one.state = 'cancelled';
          else one.state = outcome === 'failed' ? 'failed' : 'succeeded';
          world.settle();
          assertOrder();
        }
        for (const { state, actions } of world.steps()) {
          expect(state).to.be.oneOf(['completed', 'failed', 'skipped', 'aborted']);
          const restored = actions[0];
          const discard = actions.find(({ phase }) => phase === 'cleanup');
          const wasStarted = restored !== undefined && world.started.includes(restored.id);
          if (discard === undefined) continue;
          const isWanted = given.type === 'rehearsal' || (world.isAborting && state !== 'completed');
          if (wasStarted && isWanted) expect(world.started).to.include(discard.id);
          else expect(discard.state).to.equal('skipped');
        }
        const all = world.steps().every(({ state }) => state === 'completed');
        const isClean = world
          .all()
          .every(({ phase, state }) => phase === 'main' || ['succeeded', 'skipped'].includes(state));
        expect(world.end).to.equal(world.isAborting ? 'aborted' : all && isClean ? 'completed' : 'failed');
      }),
      { numRuns: 150 },
    );
  });

  it('ask each device that works to stop, once', () => {
    fc.assert(
      fc.property(shape, (given) => {
        const world = build(given);
        world.settle();
        const running = world.running().map(({ id }) => id);
        world.isAborting = true;
        world.settle();
        expect(world.cancelled.toSorted()).to.deep.equal(running.toSorted());
        world.settle();
        expect(world.cancelled).to.have.length(running.length);
      }),
      { numRuns: 100 },
    );
  });

  it('leave no plan waiting for itself', () => {
    const groups = (...list: [number, string | null][]) =>
      list.map(([sequence, dependsOnGroupId], index) => ({ id: `g${index}`, sequence, dependsOnGroupId }));
    const rule = (...list: [number, string | null][]) => {
      const all = groups(...list);
      const [first] = all;
      return first === undefined ? undefined : brokenDependency(all, first);
    };
    expect(rule([1, 'g1'], [1, null])).to.equal(undefined);
    expect(rule([1, 'g0'])).to.contain('lead back');
    expect(rule([1, 'g1'], [1, 'g0'])).to.contain('lead back');
    expect(rule([1, 'g1'], [2, null])).to.contain('higher sequence');
    expect(rule([1, 'gone'])).to.contain('another group');
  });
});
