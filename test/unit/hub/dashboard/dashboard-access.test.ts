import { expect } from 'chai';
import { DashboardAccess } from '../../../../src/hub/dashboard/dashboard-access.ts';
import type { Caller } from '../../../../src/platform/context.ts';
import { AppError } from '../../../../src/platform/errors.ts';
import { CALLER } from '../../../support/feed-client.ts';
import { quietLog } from '../../../support/quiet-log.ts';

const ID = '018f0000-0000-7000-8000-000000000001';
const PERSON: Caller = { ...CALLER, userId: ID };
const CHANGED = { kind: 'person', id: ID, partnerId: null } as const;

/** A look-up that ends when the test says so. */
function lookUp() {
  const begun: { answer: (caller: Caller) => void; fail: (error: Error) => void }[] = [];
  return {
    begun,
    authenticate: () =>
      new Promise<Caller>((answer, fail) => {
        begun.push({ answer, fail });
      }),
  };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('the rights of a dashboard connection', () => {
  let isInTouch: boolean;
  let all: DashboardAccess;
  let lost: number;
  let look: ReturnType<typeof lookUp>;

  const admit = () =>
    all.admit({
      caller: PERSON,
      authenticate: look.authenticate,
      onLost: () => void (lost += 1),
      onDevicesChanged() {},
    });
  const outcomeOf = (work: Promise<Caller>) =>
    work.then(
      () => 'allowed',
      (error: AppError) => error.code,
    );

  beforeEach(() => {
    isInTouch = true;
    lost = 0;
    look = lookUp();
    all = new DashboardAccess({ log: quietLog, isInTouch: () => isInTouch });
  });

  it('are not looked up for each piece of work while nothing has changed', async () => {
    const access = admit();
    expect(await access.current()).to.equal(PERSON);
    expect(look.begun).to.have.length(0);
    access.close();
  });

  it('let no work begin before a change has been checked', async () => {
    const access = admit();
    all.changed([CHANGED]);
    const work = outcomeOf(access.current());
    await turn();
    look.begun[0]!.answer({ ...PERSON, permissions: new Set(['other:read']) });
    expect(await work).to.equal('unauthenticated');
    expect(lost).to.equal(1);
  });

  it('are looked up once more when a change came during a look-up', async () => {
    const access = admit();
    all.changed([CHANGED]);
    await turn();
    all.changed([CHANGED]);
    look.begun[0]!.answer(PERSON);
    await turn();
    expect(look.begun).to.have.length(2);
    const work = outcomeOf(access.current());
    look.begun[1]!.fail(new AppError('unauthenticated', 'The session has ended.'));
    expect(await work).to.equal('unauthenticated');
  });

  it('are looked up before any work while announcements do not reach this server', async () => {
    const access = admit();
    isInTouch = false;
    const work = outcomeOf(access.current());
    await turn();
    look.begun[0]!.answer(PERSON);
    expect(await work).to.equal('allowed');
    access.close();
  });

  it('refuse work while they cannot be looked up, and recover by themselves', async () => {
    const access = admit();
    all.changed([CHANGED]);
    await turn();
    look.begun[0]!.fail(new AppError('unavailable', 'The database is away.'));
    await turn();
    const refused = outcomeOf(access.current());
    await turn();
    look.begun[1]!.fail(new Error('connection reset'));
    expect(await refused).to.equal('unavailable');
    const allowed = outcomeOf(access.current());
    await turn();
    look.begun[2]!.answer(PERSON);
    expect(await allowed).to.equal('allowed');
    expect(lost).to.equal(0);
    access.close();
  });

  it('of many connections are looked up a few at a time', async () => {
    const many = Array.from({ length: 20 }, admit);
    all.changed([CHANGED]);
    await turn();
    expect(look.begun).to.have.length(4);
    for (let at = 0; at < many.length; at += 1) {
      look.begun[at]!.answer(PERSON);
      await turn();
    }
    expect(look.begun).to.have.length(20);
    for (const access of many) access.close();
  });

  it('do not affect other connections', async () => {
    const access = admit();
    all.changed([{ kind: 'session', id: ID, partnerId: null }]);
    await turn();
    expect(look.begun).to.have.length(0);
    access.close();
  });
});
