import { expect } from 'chai';
import { createJobReport } from '../../../../src/cli/remote/job-report.ts';
import type { Output } from '../../../../src/cli/remote/output.ts';

const JOB = { id: 'job', deviceId: 'device', orgId: 'org', hostname: 'PC\u001b' };

describe('the report of jobs of devices', () => {
  function reported() {
    const lines: string[] = [];
    const remarks: string[] = [];
    const output: Output = {
      isJson: false,
      width: undefined,
      unread: new AbortController().signal,
      line: (text) => void lines.push(text),
      piece: (text) => void lines.push(text),
      json: () => undefined,
      remark: (text) => void remarks.push(text),
    };
    const report = createJobReport(output, [JOB]);
    const sees = (seq: number, text: string) => report.output(JOB, seq, [{ stream: 'stdout', text }]);
    const ends = (stdout: string, truncated = false) => {
      report.rest(JOB, { stdout, stderr: '', truncated });
      return lines.map((line) => line.replace('PC\\x1b | ', ''));
    };
    return { sees, ends, remarks };
  }

  it('shows what was missed in the middle, at the beginning or at the end, once', () => {
    const middle = reported();
    middle.sees(0, 'a\nb');
    middle.sees(3, 'd\n');
    expect(middle.ends('a\nb!\nc\nd\n')).to.deep.equal(['a', 'bd', '!', 'c']);
    expect(middle.remarks).to.have.length(1);
    const begin = reported();
    begin.sees(2, 'c\n');
    expect(begin.ends('a\nb\nc\n')).to.deep.equal(['c', 'a', 'b']);
    const end = reported();
    end.sees(0, 'a\n');
    end.sees(0, 'a\n');
    expect(end.ends('a\nb\nc')).to.deep.equal(['a', 'b', 'c']);
    const both = reported();
    both.sees(1, 'b\n');
    // Something after it was missed as well: rather twice than not at all.
    expect(both.ends('a\nb\nc\n')).to.deep.equal(['b', 'a', 'b', 'c']);
  });

  it('says that there was more of an output of which only the end was kept', () => {
    const unseen = reported();
    expect(unseen.ends('end\n', true)).to.deep.equal(['end']);
    expect(unseen.remarks).to.have.length(1);
    const seen = reported();
    seen.sees(0, 'begin\nend\n');
    expect(seen.ends('end\n', true)).to.deep.equal(['begin', 'end']);
    expect(seen.remarks).to.deep.equal([]);
  });

  it('prints a line without an end in parts, and whole at the end', () => {
    const long = reported();
    long.sees(0, 'x'.repeat(20_000));
    expect(long.ends('x'.repeat(20_000)).map(({ length }) => length)).to.deep.equal([8000, 8000, 4000]);
  });
});
