import { pathText } from '../../../protocol/index.ts';
import { EngineError } from '../../engine-error.ts';
import { brokenFileSystem } from '../file-system-error.ts';

/** The names in the blocks of a folder. Its index, if it has one, is in entries that name nothing. */

export interface FolderName {
  /** As `pathText` writes it. */
  name: string;
  /** Its bytes, each as a character, so that comparing them is comparing bytes. */
  key: string;
  inode: number;
}

const HEAD = 8;

export function* namesIn(block: Buffer): Generator<FolderName, void> {
  for (let at = 0; at + HEAD <= block.length; ) {
    const inode = block.readUInt32LE(at);
    const length = lengthOf(block.readUInt16LE(at + 4), block.length);
    const nameLength = block[at + 6] ?? 0;
    if (length % 4 !== 0 || length < HEAD + nameLength || at + length > block.length) {
      throw brokenFileSystem('A folder is damaged.');
    }
    const bytes = block.subarray(at + HEAD, at + HEAD + nameLength);
    // No system makes such a name. Shown with another character, it is the name of one file and no path.
    const name = pathText(bytes).replace(/[/\0]/g, '\ufffd');
    at += length;
    if (inode === 0 || name === '.' || name === '..') continue;
    if (name === '') throw brokenFileSystem('A folder has an entry without a name.');
    yield { name, key: bytes.toString('latin1'), inode };
  }
}

/** With blocks of 64 KiB, the length of a whole block does not fit into its field. */
const lengthOf = (written: number, blockBytes: number): number =>
  blockBytes === 65_536 && (written === 0xffff || written === 0) ? 65_536 : written;

export const pathMissing = () =>
  new EngineError('PATH_MISSING', { message: 'The file system does not contain this path.' });
