import type { StreamParser } from '@codemirror/language';

/** Highlighting of Windows batch files, for which CodeMirror has no mode. */

const WORDS = new Set(
  `assoc break call cd chdir cls cmd color copy date defined del dir do echo else endlocal equ erase errorlevel exist
  exit for ftype geq goto gtr if in leq lss md mkdir mklink move neq not off on path pause popd prompt pushd rd ren
  rename rmdir set setlocal shift start time title type ver verify vol`.split(/\s+/),
);

export const cmdMode: StreamParser<object> = {
  name: 'cmd',
  startState: () => ({}),
  token(stream) {
    if (stream.sol()) {
      stream.eatSpace();
      if (stream.match(/^(@?rem\b|::)/i)) {
        stream.skipToEnd();
        return 'comment';
      }
      if (stream.match(/^:\w+/)) return 'labelName';
    }
    if (stream.eatSpace()) return null;
    // `%name%`, `%name:~0,3%`, `%1`, `%~dp0`, `%%i` and `!name!`
    if (stream.match(/^%%?~?[a-z]*\d|^%%~?\w|^%[^%\s]+%|^![^!\s]+!/i)) return 'variableName';
    if (stream.match(/^"[^"]*"?/)) return 'string';
    if (stream.match(/^\d+\b/)) return 'number';
    if (stream.match(/^[&|<>()=^@]/)) return 'operator';
    const word = stream.match(/^[\w.-]+/);
    if (word === null || typeof word === 'boolean') {
      stream.next();
      return null;
    }
    return WORDS.has(word[0].toLowerCase()) ? 'keyword' : null;
  },
  languageData: { commentTokens: { line: 'rem ' } },
};
