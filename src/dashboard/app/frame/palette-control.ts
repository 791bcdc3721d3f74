/** Opens the palette, whose code is loaded after the page: who asks before that has it then. */
let isWanted = false;
let open = (): void => {
  isWanted = true;
};

export const openPalette = (): void => open();

export function paletteOpensWith(opener: () => void): void {
  open = opener;
  if (isWanted) opener();
}
