# cmake -DIN=FILE;FILE -DOUT=FILE.c -P embed.cmake: the bytes of files as C. x/y.js becomes wr_embedded_y_js and wr_embedded_y_js_size.
set(text "#include \"server/dashboard.h\"\n")
foreach(file IN LISTS IN)
  get_filename_component(name "${file}" NAME)
  string(MAKE_C_IDENTIFIER "${name}" name)
  file(READ "${file}" bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND text "const unsigned char wr_embedded_${name}[] = {${bytes}};\n"
                     "const size_t wr_embedded_${name}_size = sizeof(wr_embedded_${name});\n")
endforeach()
file(WRITE "${OUT}" "${text}")
