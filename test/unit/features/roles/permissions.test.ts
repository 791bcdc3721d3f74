import { expect } from 'chai';
import fc from 'fast-check';
import { exceeds, isPermission, PERMISSIONS } from '../../../../src/features/roles/role.schema.ts';
import { holds } from '../../../../src/platform/context.ts';

const someOf = fc.subarray([...PERMISSIONS]);

describe('permissions beyond one’s own', () => {
  it('are none exactly when what is wanted opens nothing that is not held', () => {
    fc.assert(
      fc.property(someOf, someOf, (held, wanted) => {
        const opened = PERMISSIONS.filter((permission) => holds(new Set(wanted), permission));
        const covered = opened.every((permission) => holds(new Set(held), permission));
        expect(exceeds(new Set(held), wanted).length === 0).to.equal(covered);
      }),
    );
  });

  it('are none of what one holds, however much more one comes to hold', () => {
    fc.assert(
      fc.property(someOf, someOf, (held, more) => {
        expect(exceeds(new Set([...held, ...more]), held)).to.deep.equal([]);
      }),
    );
  });

  it('are never hidden by a chain: who may give to me may give what I may give', () => {
    fc.assert(
      fc.property(someOf, someOf, someOf, (first, second, third) => {
        const none = (held: string[], wanted: string[]) => exceeds(new Set(held), wanted).length === 0;
        if (none(first, second) && none(second, third)) expect(none(first, third)).to.equal(true);
      }),
    );
  });

  it('are named', () => {
    expect(exceeds(new Set(['sites:*', 'users:read']), ['sites:read', 'users:write', '*:*'])).to.deep.equal([
      'users:write',
      '*:*',
    ]);
    expect(exceeds(new Set(['sites:read', 'sites:write', 'sites:delete']), ['sites:*'])).to.deep.equal([
      'sites:*',
    ]);
  });

  it('are known ones only', () => {
    for (const odd of ['', '*', 'sites', 'sites:fly', '*:read', 'SITES:read', 'toString:*', 'sites:read ']) {
      expect(isPermission(odd), odd).to.equal(false);
    }
  });
});
