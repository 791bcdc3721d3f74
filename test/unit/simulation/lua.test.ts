import { expect } from 'chai';
import { script } from '../../simulation/lua.ts';

/** Redis itself is the measure: `test/programs/hub/cluster` runs the scripts of the servers in it. */
describe('scripts of Redis in the simulation', () => {
  const run = (text: string, args: string[] = [], call: (args: string[]) => string | null = () => null) =>
    script(text)([], args, call);

  it('have what a command has not found as false, and end a list at the first nil', () => {
    expect(
      run(`local found = redis.call('GET', 'a') if found then return 'yes' else return 'no' end`),
    ).to.equal('no');
    expect(run(`return { 1, 'two', nil, 4 }`)).to.deep.equal([1, 'two']);
    expect(run(`return { redis.call('GET', 'a'), 2 }`)).to.deep.equal([null, 2]);
  });

  it('take numbers from texts, and return whole numbers', () => {
    expect(run(`return ARGV[1] * 1000 + math.floor(ARGV[2] / 1000)`, ['2', '3999'])).to.equal(2003);
    expect(run(`return 7 / 2`)).to.equal(3);
    expect(run(`return tonumber('x') == nil and 1 or 0`)).to.equal(1);
    expect(
      run(`return math.max(tonumber(redis.call('GET', 'a') or '0') + 1, tonumber(ARGV[1]))`, ['5']),
    ).to.equal(5);
  });

  it('cut and match texts', () => {
    expect(
      run(`return string.sub(ARGV[1], 1, string.len(ARGV[2]) + 1) == ARGV[2] .. ':'`, ['12:a', '12']),
    ).to.equal(1);
    expect(run(`return string.match(ARGV[1], '^%d+')`, ['12:a'])).to.equal('12');
    expect(run(`return string.format('%.0f', 1780272139805)`)).to.equal('1780272139805');
  });

  it('count, branch and bind as Lua does', () => {
    expect(
      run(`local sum = 0 for i = 1, #ARGV, 2 do sum = sum + ARGV[i] end return sum`, ['1', '9', '2']),
    ).to.equal(3);
    expect(
      run(`local t = {} for _, v in ipairs({ 3, 4 }) do table.insert(t, v * 2) end return t`),
    ).to.deep.equal([6, 8]);
    expect(run(`if 0 then return 'true' elseif '' then return 'never' end`)).to.equal('true');
    expect(run(`return 1 + 2 * 3 == 7 and 'a' .. 'b' .. 'c' or 'no'`)).to.equal('abc');
    expect(run(`local n = 0 while true do n = n + 1 if n == 3 then break end end return n`)).to.equal(3);
  });

  it('fail loudly at what is not known here', () => {
    expect(() => run(`return cjson.encode({})`)).to.throw('cjson.encode is not known');
    expect(() => run(`return 1 < '2'`)).to.throw('attempt to compare');
  });
});
