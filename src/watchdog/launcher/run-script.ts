import { isBuiltin } from 'node:module';
import path from 'node:path';
import vm from 'node:vm';

/**
 * Runs the text of a CommonJS script in this process, as it was read: the file is not opened again. The script can
 * `require` the modules of Node only, because everything else is bundled into it.
 */
export function runScript(text: string, file: string): void {
  const wrapped = `(function (exports, require, module, __filename, __dirname) {${text.replace(/^#!.*/, '')}\n})`;
  const script = new vm.Script(wrapped, {
    filename: file,
    importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  const module = { exports: {} };
  // The type of what a script evaluates to is not known; this one is the function above.
  const run = script.runInThisContext() as (
    exports: object,
    require: (name: string) => unknown,
    module: object,
    file: string,
    folder: string,
  ) => void;
  run(module.exports, requireBuiltin, module, file, path.dirname(file));
}

function requireBuiltin(name: string): unknown {
  if (!isBuiltin(name)) throw new Error(`The agent has no module "${name}": it loads modules of Node only.`);
  return process.getBuiltinModule(name);
}
