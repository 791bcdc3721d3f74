import { expect } from 'chai';
import { buildPerson, type Person } from '../../../support/factories.ts';
import { notificationGround } from '../../../support/notifications/notification-ground.ts';
import { testClock } from '../../../support/test-clock.ts';

const SETTINGS = '/users/me/notification-settings';
const DAY_MS = 86_400_000;

describe('an address for alerts of one’s own choice', () => {
  let ground: Awaited<ReturnType<typeof notificationGround>>;
  let person: Person;
  let addresses = 0;
  const newAddress = () => `on-call-${++addresses}@elsewhere.example`;

  before(async () => {
    ground = await notificationGround();
  });
  after(async () => ground.close());
  beforeEach(async () => {
    const { partnerId } = ground.tenant;
    person = await buildPerson(ground.app, { scope: 'partner', partnerId });
  });
  afterEach(() => ground.clear());

  const call = (method: string, path: string, body?: object, by = person) =>
    ground.app.call(method, `${SETTINGS}${path}`, { token: by.token, body });
  const name = (address: string | null, by = person) => call('PATCH', '', { address }, by);
  const verify = (code: string, by = person) => call('POST', '/verify-address', { code }, by);
  const codeMailedTo = async (address: string, count = 1) =>
    /^(\d{4} \d{4})\r?$/m.exec(await ground.mailbox.newest(address, count))?.[1] ?? '';
  /** Where the person is told about an alert that is raised now. */
  const toldAt = async () => {
    const { id } = await ground.policy({ steps: [{ afterMinutes: 0, userIds: [person.id] }] });
    const before = (await ground.mailbox.all()).length;
    await ground.raise({});
    await ground.app.settle();
    await ground.call('DELETE', `/notification-policies/${id}`);
    // The mail with a code may come meanwhile.
    const mails = (await ground.mailbox.all()).slice(before).filter((mail) => !mail.includes('Your code'));
    return mails.map((mail) => /^To: (.*?)\r?$/m.exec(mail)?.[1]);
  };

  it('is used once the code that was mailed to it was given back, and that of the account until then', async () => {
    const address = newAddress();
    expect((await name(address)).body).to.include({ address, addressVerified: false });
    expect(await toldAt()).to.deep.equal([person.email]);
    const mail = await ground.mailbox.newest(address);
    expect(mail).not.to.include(person.email).and.not.to.include('Test');
    const { status, body } = await verify(await codeMailedTo(address));
    expect({ status, verified: body.addressVerified }).to.deep.equal({ status: 200, verified: true });
    expect(await toldAt()).to.deep.equal([address]);
    expect((await call('GET', '')).body).to.include({ address, addressVerified: true });
  });

  it('is verified anew when it is another one, and not when other settings change', async () => {
    const [first, second] = [newAddress(), newAddress()];
    await name(first);
    await verify(await codeMailedTo(first));
    expect((await call('PATCH', '', { severities: ['critical'] })).body.addressVerified).to.equal(true);
    await call('PATCH', '', { severities: null });
    expect((await name(second)).body.addressVerified).to.equal(false);
    expect(await toldAt()).to.deep.equal([person.email]);
    expect((await name(null)).body).to.include({ address: null, addressVerified: false });
  });

  it('is not verified by another code, one of another address or person, an earlier one, or one that is a day old', async () => {
    const [address, other] = [newAddress(), newAddress()];
    const stranger = await buildPerson(ground.app, {
      scope: 'partner',
      partnerId: ground.tenant.partnerId,
    });
    await name(other);
    const ofOther = await codeMailedTo(other);
    await name(address);
    await name(address, stranger);
    const first = await codeMailedTo(address);
    await call('POST', '/address-code');
    const last = await codeMailedTo(address, 3);
    const wrong = last === '0000 0000' ? '00000001' : '00000000';
    for (const [code, by] of [
      [wrong, person],
      [ofOther, person],
      [first, person],
      [last, stranger],
    ] as const) {
      const { status, body } = await verify(code, by);
      expect(status).to.equal(400);
      expect(body.details[0].path).to.equal('body.code');
    }
    testClock.jump(DAY_MS + 1000);
    try {
      expect((await verify(last)).status).to.equal(400);
    } finally {
      testClock.jump(-DAY_MS - 1000);
    }
    expect((await verify(last)).status).to.equal(200);
    // It counts once.
    expect((await verify(last)).status).to.equal(400);
  });

  it('cannot be used to flood a mailbox, and codes cannot be guessed', async () => {
    const address = newAddress();
    await name(address);
    expect((await call('POST', '/address-code')).status).to.equal(200);
    expect((await call('POST', '/address-code')).status).to.equal(200);
    expect((await call('POST', '/address-code')).status).to.equal(429);
    const stranger = await buildPerson(ground.app, {
      scope: 'partner',
      partnerId: ground.tenant.partnerId,
    });
    expect((await name(address.toUpperCase(), stranger)).status).to.equal(429);
    expect((await call('GET', '', undefined, stranger)).body.address).to.equal(null);
    for (let guess = 0; guess < 10; guess += 1) {
      expect((await verify(`0000000${guess}`)).status).to.be.oneOf([400, 200]);
    }
    expect((await verify('12345678')).status).to.equal(429);
  });

  it('has to be named before a code is asked for or given', async () => {
    expect((await call('POST', '/address-code')).status).to.equal(409);
    expect((await verify('12345678')).status).to.equal(409);
    const { body } = await verify('1234');
    expect(body.error).to.include('must have 8 digits');
  });
});
