import { expect } from 'chai';
import fc from 'fast-check';
import { Mailbox } from '../../../../src/hub/device/mailbox.ts';

const tick = () => new Promise<void>((resolve) => setImmediate(resolve));
async function empty(mailbox: { depth: number }): Promise<void> {
  for (let i = 0; i < 50 && mailbox.depth > 0; i++) await tick();
}

describe('the mailbox', () => {
  it('handles messages at once, in order, one at a time', () => {
    const turns: string[] = [];
    const mailbox = new Mailbox<string>((message) => {
      turns.push(`${message}+`);
      if (message === 'a') mailbox.post('c');
      turns.push(`${message}-`);
    }, 10);
    mailbox.post('a');
    mailbox.post('b');
    expect(turns).to.deep.equal(['a+', 'a-', 'c+', 'c-', 'b+', 'b-']);
  });

  it('handles urgent messages first and keeps the order within each kind', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { maxLength: 60 }), (kinds) => {
        const turns: number[] = [];
        const mailbox: Mailbox<number> = new Mailbox((message) => {
          // All are posted within the first turn, so that they wait for each other.
          if (message !== -1) turns.push(message);
          else kinds.forEach((urgent, i) => void (urgent ? mailbox.postUrgent(i) : mailbox.post(i)));
        }, 100);
        mailbox.post(-1);
        const indexes = kinds.map((_, i) => i);
        expect(turns).to.deep.equal([
          ...indexes.filter((i) => kinds[i]),
          ...indexes.filter((i) => !kinds[i]),
        ]);
      }),
    );
  });

  it('refuses messages over its capacity, but never urgent ones', () => {
    const turns: string[] = [];
    const mailbox = new Mailbox<string>((message) => turns.push(message), 2);
    mailbox.hold();
    expect([mailbox.post('a'), mailbox.post('b'), mailbox.post('c')]).to.deep.equal([true, true, false]);
    expect(mailbox.depth).to.equal(2);
    mailbox.postUrgent('first');
    expect(turns).to.deep.equal(['first']);
    mailbox.release();
    expect(turns).to.deep.equal(['first', 'a', 'b']);
    expect(mailbox.post('d')).to.equal(true);
  });

  it('does not handle a message that was withdrawn or drained', () => {
    const turns: string[] = [];
    const mailbox = new Mailbox<string>((message) => turns.push(message), 10);
    mailbox.hold();
    for (const message of ['a', 'b', 'a']) mailbox.post(message);
    expect(mailbox.withdraw((message) => message === 'a')).to.equal('a');
    expect(mailbox.withdraw((message) => message === 'z')).to.equal(undefined);
    expect(mailbox.drain()).to.deep.equal(['b', 'a']);
    mailbox.release();
    expect([turns, mailbox.depth]).to.deep.equal([[], 0]);
  });

  it('lets other mailboxes run between long runs of one', async () => {
    const turns: string[] = [];
    const mailboxes = ['x', 'y'].map((name) => new Mailbox<number>(() => turns.push(name), 1000));
    for (const mailbox of mailboxes) {
      mailbox.hold();
      for (let i = 0; i < 300; i++) mailbox.post(i);
    }
    for (const mailbox of mailboxes) mailbox.release();
    await Promise.all(mailboxes.map(empty));
    expect(turns).to.have.lengthOf(600);
    const longest = Math.max(
      ...turns
        .join('')
        .split(/(?<=x)(?=y)|(?<=y)(?=x)/)
        .map((run) => run.length),
    );
    expect(longest).to.be.below(100);
  });

  it('does not go on with a long run when more is posted before others had their turn', async () => {
    let turns = 0;
    const mailbox = new Mailbox<number>(() => (turns += 1), 1000);
    mailbox.hold();
    for (let i = 0; i < 200; i++) mailbox.post(i);
    mailbox.release();
    const first = turns;
    expect(first).to.be.below(100);
    mailbox.post(-1);
    mailbox.postUrgent(-1);
    mailbox.release();
    expect(turns).to.equal(first);
    await empty(mailbox);
    expect(turns).to.equal(202);
  });

  it('handles no urgent message that was drained', () => {
    const turns: string[] = [];
    const mailbox: Mailbox<string> = new Mailbox((message) => {
      turns.push(message);
      mailbox.postUrgent('urgent');
      mailbox.post('normal');
      expect(mailbox.drain()).to.deep.equal(['urgent', 'normal']);
    }, 10);
    mailbox.post('a');
    expect([turns, mailbox.depth]).to.deep.equal([['a'], 0]);
  });

  it('continues with waiting messages after a handler that throws', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 100 }), fc.nat(), async (size, bad) => {
        const turns: number[] = [];
        const mailbox = new Mailbox<number>((message) => {
          turns.push(message);
          if (message === bad % Math.min(size, 60)) throw new Error('on purpose');
        }, 100);
        mailbox.hold();
        const all = Array.from({ length: size }, (_, i) => i);
        for (const i of all) mailbox.post(i);
        expect(() => mailbox.release()).to.throw('on purpose');
        await empty(mailbox);
        expect(turns).to.deep.equal(all);
        mailbox.post(-1);
        await empty(mailbox);
        expect(turns.at(-1)).to.equal(-1);
      }),
    );
  });

  it('handles each message once, with any sequence of post, hold, release and withdraw', async () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('post' as const), again: fc.nat(3) }),
      fc.record({ do: fc.constant('urgent' as const), again: fc.nat(3) }),
      fc.record({
        do: fc.constantFrom('hold' as const, 'release' as const, 'withdraw' as const),
        again: fc.constant(0),
      }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 200 }), async (steps) => {
        let made = 0;
        let nested = 0;
        const handled: number[] = [];
        const withdrawn: number[] = [];
        const accepted: number[] = [];
        let running = false;
        const mailbox: Mailbox<{ id: number; again: number }> = new Mailbox((message) => {
          if (running) nested += 1;
          running = true;
          handled.push(message.id);
          for (let i = 0; i < message.again; i++) post('post', 0);
          running = false;
        }, 20);
        const post = (kind: 'post' | 'urgent', again: number) => {
          const message = { id: ++made, again };
          if (kind === 'urgent') mailbox.postUrgent(message);
          if (kind === 'urgent' || mailbox.post(message)) accepted.push(message.id);
        };
        for (const { do: what, again } of steps) {
          if (what === 'post' || what === 'urgent') post(what, again);
          else if (what === 'withdraw') {
            const message = mailbox.withdraw(() => true);
            if (message !== undefined) withdrawn.push(message.id);
          } else mailbox[what]();
        }
        mailbox.release();
        await empty(mailbox);
        expect(nested).to.equal(0);
        expect([...handled, ...withdrawn].sort((a, b) => a - b)).to.deep.equal(
          accepted.sort((a, b) => a - b),
        );
      }),
    );
  });
});
