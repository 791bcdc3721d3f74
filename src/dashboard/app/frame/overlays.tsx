import { KeyboardHelp } from './keyboard-help.tsx';
import { Palette } from './palette.tsx';
import { StepUpDialog } from './step-up-dialog.tsx';

/** What may lie over a page. It is loaded after the page, which does not wait for it. */
export function Overlays({ showsKeys, onKeysClose }: { showsKeys: boolean; onKeysClose: () => void }) {
  return (
    <>
      <KeyboardHelp opened={showsKeys} onClose={onKeysClose} />
      <StepUpDialog />
      <Palette />
    </>
  );
}
